// Ledger: what this rank has sent. Every collective of every group is written here when
// it is issued and when it is done: counts and bytes for --verify and --measure, the
// newest entry for error texts and watchdogs, each entry for traces. One ledger a rank,
// shared by its groups; safe to read from another thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace hpplan::runtime {

enum class Collective : std::uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kShift,
  kBroadcast,
  kBarrier,
};
std::string_view to_string(Collective kind);  // "all_reduce"

struct CollectiveRecord {
  std::string axis;  // name of the group: "tp", "ring", "ulysses", "sequence", "world"
  Collective kind = Collective::kBarrier;
  std::int64_t sequence = 0;  // of this group, counted from 1
  std::vector<int> members;   // world ranks of the group, in group order
  // Bytes this rank sends, as the cheapest known algorithm would: (n-1)/n of the tensor
  // for a gather of n parts or a scattered sum, twice that for an all-reduce.
  std::uint64_t wire_bytes = 0;
  std::chrono::steady_clock::time_point issued;
  // When this rank had nothing else to do than to wait for it, and when it was done: the
  // time between is what no computation hides.
  std::optional<std::chrono::steady_clock::time_point> waiting, done;

  // "ring shift #17 in group [1, 3, 5]"
  std::string str() const;
};

// A collective failed or took longer than the group's timeout. what() names rank, axis,
// collective, sequence number and the backend's own words.
class CommError : public std::runtime_error {
 public:
  CommError(int rank, CollectiveRecord record, const std::string& why);
  int rank() const { return rank_; }
  const CollectiveRecord& record() const { return record_; }

 private:
  int rank_;
  CollectiveRecord record_;
};

class Ledger {
 public:
  using Observer = std::function<void(const CollectiveRecord&)>;

  // "tp/all_reduce" -> how often, since the last reset. Warm-ups and checks of a group's
  // opening are not counted.
  std::map<std::string, std::int64_t> counts() const;
  // Axis -> bytes, since the last reset.
  std::map<std::string, std::uint64_t> wire_bytes() const;
  // Axis -> seconds this rank stood waiting, since the last reset.
  std::map<std::string, double> waited_s() const;
  void reset();
  // The newest collective that is issued and not done; else the newest that is done.
  std::optional<CollectiveRecord> last() const;
  // Called on completion, in the thread that waited for it. Empty: nobody.
  void observe(Observer observer);

  // For groups.
  std::int64_t begin(CollectiveRecord record);  // returns the entry's number
  void end(std::int64_t entry, std::chrono::steady_clock::time_point waiting);

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::int64_t> counts_;
  std::map<std::string, std::uint64_t> bytes_;
  std::map<std::string, double> waited_;
  std::map<std::int64_t, CollectiveRecord> open_;
  std::optional<CollectiveRecord> last_done_;
  std::int64_t next_entry_ = 0;
  Observer observer_;
};

}  // namespace hpplan::runtime
