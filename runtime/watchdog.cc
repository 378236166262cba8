#include "runtime/watchdog.h"

#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "planner/spec/error.h"

namespace hpplan::runtime {

// Shared with the thread that talks to the store: a stopped rank 0 leaves it in a call that never returns, and
// nobody may wait for it.
struct Watchdog::Impl {
  using Clock = std::chrono::steady_clock;

  Store store;
  int rank, world;
  std::chrono::milliseconds timeout;
  std::function<std::string()> describe;
  std::mutex mutex;
  std::condition_variable wake;
  bool stopping = false;
  Clock::time_point answered = Clock::now();  // the store's last whole round, under mutex

  Impl(Store s, int r, int w, std::chrono::milliseconds t, std::function<std::string()> d)
      : store(std::move(s)), rank(r), world(w), timeout(t), describe(std::move(d)) {}

  static std::string key(int rank) { return concat("beat/", rank); }

  [[noreturn]] void leave(const std::string& why) const {
    std::fprintf(stderr, "hprun: rank %d: %s; here: %s\n", rank, why.c_str(), describe().c_str());
    std::fflush(stderr);
    _exit(kSilent);
  }

  void listen();
  void watch();
};

// Beats, and hears the others beat.
void Watchdog::Impl::listen() {
  constexpr std::int64_t kGoodbye = std::int64_t{1} << 40;
  std::vector<std::int64_t> beats(static_cast<std::size_t>(world), 0);
  std::vector<Clock::time_point> heard(static_cast<std::size_t>(world), Clock::now());
  for (;;) {
    std::string silent;
    try {
      store.add(key(rank), 1);
      for (int other = 0; other < world; ++other) {
        if (other == rank) continue;
        const std::int64_t beat = store.add(key(other), 0);
        auto& last = beats[static_cast<std::size_t>(other)];
        auto& when = heard[static_cast<std::size_t>(other)];
        if (beat != last || beat >= kGoodbye) {
          last = beat;
          when = Clock::now();
        } else if (Clock::now() - when > timeout) {
          silent = concat("rank ", other, " has been silent for ", timeout.count(), " ms (killed, stopped or cut off)");
        }
      }
    } catch (const std::exception& e) {
      // The store is in rank 0; without it nobody can meet again.
      silent = concat("rank 0, which holds the store, does not answer (", e.what(), ")");
    }
    std::unique_lock lock(mutex);
    if (stopping) break;
    if (!silent.empty()) leave(silent);
    answered = Clock::now();
    wake.wait_for(lock, timeout / 5, [this] { return stopping; });
    if (stopping) break;
  }
  try {
    store.add(key(rank), kGoodbye);
  } catch (const std::exception&) {
    // Rank 0 left first; nobody is listening any more.
  }
}

// Keeps time without the store.
void Watchdog::Impl::watch() {
  std::unique_lock lock(mutex);
  while (!stopping) {
    wake.wait_for(lock, timeout / 5, [this] { return stopping; });
    if (!stopping && Clock::now() - answered > timeout)
      leave(concat("rank 0, which holds the store, has been silent for ", timeout.count(),
                   " ms (killed, stopped or cut off)"));
  }
}

Watchdog::Watchdog(Store store, int rank, int world, std::chrono::milliseconds timeout,
                   std::function<std::string()> describe)
    : impl_(std::make_shared<Impl>(std::move(store), rank, world, timeout, std::move(describe))) {
  listener_ = std::thread([impl = impl_, done = &listening_] {
    impl->listen();
    done->set_value();
  });
  watcher_ = std::thread([impl = impl_] { impl->watch(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->wake.notify_all();
  watcher_.join();
  // A listener whose store never answers is left behind; the process is about to end.
  if (listening_.get_future().wait_for(std::chrono::seconds(1)) == std::future_status::ready) {
    listener_.join();
  } else {
    std::fprintf(stderr, "hprun: rank %d: rank 0, which holds the store, does not answer at the end\n", impl_->rank);
    std::fflush(stderr);
    _exit(kSilent);
  }
}

}  // namespace hpplan::runtime
