#include "tests/support/run_ranks.h"

#include <ATen/Parallel.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace hpplan::runtime {
namespace {

// What the ranks of one call stand in, for the report of a deadlock.
class Watch {
 public:
  explicit Watch(int ranks) : ledgers_(static_cast<std::size_t>(ranks)) {
    for (int r = 0; r < ranks; ++r) running_.insert(r);
  }
  void follow(int rank, std::shared_ptr<Ledger> ledger) {
    const std::lock_guard lock(mutex_);
    ledgers_[static_cast<std::size_t>(rank)] = std::move(ledger);
  }
  void finish(int rank, std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    if (failure && !first_) first_ = failure;
    running_.erase(rank);
    ended_.notify_all();
  }
  void wait(std::chrono::seconds limit) {
    std::unique_lock lock(mutex_);
    if (ended_.wait_for(lock, limit, [&] { return running_.empty(); })) return;
    std::fprintf(stderr, "run_ranks: not done after %lld s\n",
                 static_cast<long long>(limit.count()));
    for (const int rank : running_) {
      const auto& ledger = ledgers_[static_cast<std::size_t>(rank)];
      const auto last = ledger ? ledger->last() : std::nullopt;
      std::fprintf(stderr, "  rank %d: %s%s\n", rank,
                   last ? last->str().c_str() : "no collective yet",
                   last && last->done ? " (done)" : "");
    }
    std::fflush(stderr);
    std::_Exit(3);
  }
  std::exception_ptr first() const { return first_; }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  std::set<int> running_;
  std::vector<std::shared_ptr<Ledger>> ledgers_;
  std::exception_ptr first_;
};

void run(int ranks, const RankSettings& settings,
         const std::function<void(int rank, const Store&, Watch&)>& body) {
  const Store store = Store::in_process();
  Watch watch(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      at::set_num_threads(settings.threads);
      std::exception_ptr failure;
      try {
        body(rank, store, watch);
      } catch (...) {
        failure = std::current_exception();
      }
      watch.finish(rank, failure);
    });
  }
  watch.wait(settings.limit);
  for (std::thread& thread : threads) thread.join();
  if (watch.first()) std::rethrow_exception(watch.first());
}

}  // namespace

CommOptions loopback(const RankSettings& settings) {
  CommOptions options;
  options.backend = Backend::kGloo;
  options.timeout = settings.collective_timeout;
  options.interface = "lo";
  options.checks = settings.checks;
  return options;
}

void run_threads(int ranks, const std::function<void(int, const Store&)>& body,
                 const RankSettings& settings) {
  run(ranks, settings, [&](int rank, const Store& store, Watch&) { body(rank, store); });
}

void run_ranks(const Mesh& mesh, const std::function<void(const DeviceMesh&)>& body,
               const RankSettings& settings) {
  run(mesh.size(), settings, [&](int rank, const Store& store, Watch& watch) {
    const DeviceMesh own(mesh, rank, store, loopback(settings));
    watch.follow(rank, own.shared_ledger());
    body(own);
  });
}

}  // namespace hpplan::runtime
