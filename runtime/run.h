// One rank of a run: meet, build the mesh and the model, then run, measure or verify.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/spec/plan.h"
#include "runtime/environment.h"

namespace hpplan::runtime {

struct RunOptions {
  std::vector<std::string> plans;       // one, or several of one world size with --measure or --probe
  std::chrono::milliseconds timeout{30000};
  std::string checkpoint;               // diffusers transformer folder; "": seeded weights
  std::uint64_t seed = 1;
  std::string inputs, outputs;          // safetensors
  std::optional<int> steps;
  int threads = 0;                      // of one rank; 0: the cores of this host divided by its ranks
  bool verify = false;
  std::vector<std::string> measure;     // a file a plan
  std::string probe;                    // one file for all plans
  std::string trace;
  int warmup = 2, iterations = 5;
};

// "hprun 0.1.0, torch 2.15.0": ranks compare it, and measurements of another are not comparable.
std::string software_version();

// Returns the exit code: 0 done, 1 verification failed. Throws InputError, CommError, c10::Error.
int run_rank(const RunOptions& options, const RankEnvironment& environment);

}  // namespace hpplan::runtime
