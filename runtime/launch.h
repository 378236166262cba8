// Local ranks as child processes. The parent never initialises libtorch: it starts, watches, forwards signals and
// cleans up. More than one host goes through torchrun, srun or mpirun instead.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace hpplan::runtime {

struct LaunchOptions {
  int ranks = 1;
  int port = 0;  // of the meeting place; 0: a free one, chosen by rank 0 and told to the others
  std::chrono::milliseconds timeout{30000};
  std::vector<std::string> command;  // what a rank runs: this program and its arguments
};

// Runs all ranks to their end and returns the exit code: 0 when every rank left with 0. When one fails, the others get
// SIGTERM, and SIGKILL `timeout` later; the text on stderr names the first rank that failed and how. Children die with
// the parent (PR_SET_PDEATHSIG). SIGINT and SIGTERM are passed on.
int launch_local(const LaunchOptions& options);

}  // namespace hpplan::runtime
