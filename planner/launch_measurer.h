// The real Measurer: starts `hprun PLAN... --nproc N --measure FILE...`, or `LAUNCHER
// hprun PLAN... --measure FILE...`, as a child in a process group of its own, watches it,
// ends it in time and reads the measurement files.
// The only file of the planner that starts processes.
#pragma once

#include <csignal>
#include <string>
#include <vector>

#include "planner/measurer.h"

namespace hpplan {

// "hprun" beside this program or on PATH, or the words of `asked`. Throws InputError when
// there is no such program.
std::vector<std::string> find_runner(const std::string& asked);

// The words of a launcher such as "srun --ntasks {ranks}", the first one as a path that
// can be started; none for "". Throws InputError when there is no such program.
std::vector<std::string> find_launcher(const std::string& asked);

class LaunchMeasurer : public Measurer {
 public:
  // Another engine's runner takes the same arguments. launcher: what starts the ranks, in
  // front of the runner ({ranks}: how many); none: the runner is given --nproc and starts
  // them itself. stop: set by a signal handler; the
  // child is then ended and nothing more reported.
  LaunchMeasurer(std::vector<std::string> runner, const volatile std::sig_atomic_t& stop,
                 std::vector<std::string> launcher = {});
  ~LaunchMeasurer() override;
  LaunchMeasurer(const LaunchMeasurer&) = delete;
  LaunchMeasurer& operator=(const LaunchMeasurer&) = delete;

  void measure(const std::vector<const Plan*>& plans, const MeasureRequest& request,
               const Done& done) override;
  // The same for plan files that are there already, of `ranks` ranks.
  void measure_files(const std::vector<std::string>& plans,
                     const std::vector<std::string>& hashes, int ranks,
                     const MeasureRequest& request, const Done& done);
  std::string version() override;

  // The child's last words, for error texts.
  static std::string last_words(const std::string& log);

 private:
  std::string file(const std::string& name) const { return folder_ + "/" + name; }

  std::vector<std::string> runner_, launcher_;
  const volatile std::sig_atomic_t& stop_;
  std::string folder_;  // temporary; plans, measurements and the child's output
  std::string version_;
};

}  // namespace hpplan
