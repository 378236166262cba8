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
  std::chrono::milliseconds pause() const { return timeout / 6; }  // between beats
  // How long a rank may be silent: with what it takes to tell all, within the timeout.
  std::chrono::milliseconds patience() const { return timeout * 3 / 5; }

  [[noreturn]] void leave(const std::string& why) const {
    std::fprintf(stderr, "hprun: rank %d: %s; here: %s\n", rank, why.c_str(), describe().c_str());
    std::fflush(stderr);
    _exit(kSilent);
  }

  void listen();
  void watch();
};

// Beats, hears the next rank beat, and hears whether anybody found a rank silent: three calls a round and rank, however
// many ranks there are. The last rank hears rank 0, whose silence all notice anyway.
void Watchdog::Impl::listen() {
  constexpr std::int64_t kGoodbye = std::int64_t{1} << 40;
  const int next = (rank + 1) % world;
  std::int64_t last = 0;
  Clock::time_point heard = Clock::now();
  for (;;) {
    std::string silent;
    bool told = false;
    try {
      store.add(key(rank), 1);
      if (store.add("silent", 0) > 0) {
        silent = store.get("silent/which", timeout);
        told = true;
      } else if (next != rank) {
        const std::int64_t beat = store.add(key(next), 0);
        if (beat != last || beat >= kGoodbye) {
          last = beat;
          heard = Clock::now();
        } else if (Clock::now() - heard > patience()) {
          silent = concat("rank ", next, " has been silent for ",
                          std::chrono::duration_cast<std::chrono::milliseconds>(patience()).count(),
                          " ms (killed, stopped or cut off)");
          store.set("silent/which", silent);
          store.add("silent", 1);
          told = true;
        }
      }
    } catch (const std::exception& e) {
      // The store is in rank 0; without it nobody can meet again.
      silent = concat("rank 0, which holds the store, does not answer (", e.what(), ")");
    }
    std::unique_lock lock(mutex);
    if (stopping) break;
    if (!silent.empty()) {
      // Rank 0 takes the store with it: a round and a half, until all have been told.
      if (rank == 0 && told) {
        lock.unlock();
        std::this_thread::sleep_for(pause() * 3 / 2);
      }
      leave(silent);
    }
    answered = Clock::now();
    wake.wait_for(lock, pause(), [this] { return stopping; });
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
    wake.wait_for(lock, pause(), [this] { return stopping; });
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
