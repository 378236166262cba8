#include "runtime/ledger.h"

#include <array>

#include "planner/spec/error.h"

namespace hpplan::runtime {

std::string_view to_string(Collective kind) {
  constexpr std::array<std::string_view, 7> kNames = {
      "all_reduce", "all_gather", "reduce_scatter", "all_to_all",
      "shift",      "broadcast",  "barrier"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string CollectiveRecord::str() const {
  std::string text = concat(axis, " ", to_string(kind), " #", sequence, " in group [");
  for (std::size_t i = 0; i < members.size(); ++i)
    text += concat(i == 0 ? "" : ", ", members[i]);
  return text + "]";
}

CommError::CommError(int rank, CollectiveRecord record, const std::string& why)
    : std::runtime_error(concat("rank ", rank, ": ", record.str(), ": ", why)),
      rank_(rank),
      record_(std::move(record)) {}

std::map<std::string, std::int64_t> Ledger::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

std::map<std::string, std::uint64_t> Ledger::wire_bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

std::map<std::string, double> Ledger::waited_s() const {
  const std::lock_guard lock(mutex_);
  return waited_;
}

void Ledger::reset() {
  const std::lock_guard lock(mutex_);
  counts_.clear();
  bytes_.clear();
  waited_.clear();
}

std::optional<CollectiveRecord> Ledger::last() const {
  const std::lock_guard lock(mutex_);
  if (!open_.empty()) return open_.rbegin()->second;
  return last_done_;
}

void Ledger::observe(Observer observer) {
  const std::lock_guard lock(mutex_);
  observer_ = std::move(observer);
}

std::int64_t Ledger::begin(CollectiveRecord record) {
  record.issued = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  ++counts_[concat(record.axis, "/", to_string(record.kind))];
  bytes_[record.axis] += record.wire_bytes;
  open_.emplace(next_entry_, std::move(record));
  return next_entry_++;
}

void Ledger::end(std::int64_t entry, std::chrono::steady_clock::time_point waiting) {
  CollectiveRecord record;
  Observer observer;
  {
    const std::lock_guard lock(mutex_);
    const auto it = open_.find(entry);
    HP_CHECK(it != open_.end(), "entry ", entry);
    it->second.waiting = waiting;
    it->second.done = std::chrono::steady_clock::now();
    waited_[it->second.axis] +=
        std::chrono::duration<double>(*it->second.done - waiting).count();
    record = it->second;
    last_done_ = std::move(it->second);
    open_.erase(it);
    observer = observer_;
  }
  if (observer) observer(record);
}

}  // namespace hpplan::runtime
