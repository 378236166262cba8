#include "runtime/watchdog.h"

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

#include "planner/spec/error.h"

namespace hpplan::runtime {

struct Watchdog::Impl {
  using Clock = std::chrono::steady_clock;

  Store store;
  int rank, world;
  std::chrono::milliseconds timeout;
  std::function<std::string()> describe;
  std::mutex mutex;
  std::condition_variable wake;
  bool stopping = false;
  std::thread thread;

  static std::string key(int rank) { return concat("beat/", rank); }

  [[noreturn]] void leave(const std::string& why) const {
    std::fprintf(stderr, "hprun: rank %d: %s; here: %s\n", rank, why.c_str(), describe().c_str());
    std::fflush(stderr);
    _exit(kSilent);
  }

  void run() {
    constexpr std::int64_t kGoodbye = std::int64_t{1} << 40;
    std::vector<std::int64_t> beats(static_cast<std::size_t>(world), 0);
    std::vector<Clock::time_point> heard(static_cast<std::size_t>(world), Clock::now());
    std::unique_lock lock(mutex);
    while (!stopping) {
      try {
        store.add(key(rank), 1);
        for (int other = 0; other < world; ++other) {
          if (other == rank) continue;
          const std::int64_t beat = store.add(key(other), 0);
          auto& last = beats[static_cast<std::size_t>(other)];
          if (beat != last || beat >= kGoodbye) {
            last = beat;
            heard[static_cast<std::size_t>(other)] = Clock::now();
          } else if (Clock::now() - heard[static_cast<std::size_t>(other)] > timeout) {
            leave(concat("rank ", other, " has been silent for ", timeout.count(), " ms (killed, stopped or cut off)"));
          }
        }
      } catch (const std::exception& e) {
        // The store is on rank 0's host; without it nobody can meet again.
        leave(concat("the store of rank 0 does not answer (", e.what(), ")"));
      }
      wake.wait_for(lock, timeout / 5);
    }
    try {
      store.add(key(rank), kGoodbye);
    } catch (const std::exception&) {
      // Rank 0 left first; nobody is listening any more.
    }
  }
};

Watchdog::Watchdog(Store store, int rank, int world, std::chrono::milliseconds timeout,
                   std::function<std::string()> describe)
    : impl_(new Impl{std::move(store), rank, world, timeout, std::move(describe), {}, {}, false, {}}) {
  impl_->thread = std::thread([this] { impl_->run(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->wake.notify_all();
  impl_->thread.join();
}

}  // namespace hpplan::runtime
