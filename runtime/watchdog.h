// Watchdog: one thread a rank that beats through the store and listens for the others. A rank whose beat stops (killed,
// stopped, its host gone) ends this process within the timeout, with a message that names the silent rank and the
// collective this one stands in; nothing waits for ever in a collective that cannot complete.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "runtime/store.h"

namespace hpplan::runtime {

class Watchdog {
 public:
  // describe: what this rank is doing, for the message. The process leaves with exit code kSilent when another rank is
  // silent for `timeout`.
  Watchdog(Store store, int rank, int world, std::chrono::milliseconds timeout, std::function<std::string()> describe);
  // Says goodbye, so that the others do not take the silence for a failure.
  ~Watchdog();

  static constexpr int kSilent = 3;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
  std::promise<void> listening_;  // set when the listener has ended
  std::thread listener_, watcher_;
};

}  // namespace hpplan::runtime
