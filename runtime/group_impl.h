// Inside of Group, for group.cc (connections) and collectives.cc (operations) alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "runtime/backend.h"
#include "runtime/group.h"

namespace hpplan::runtime {

using WorkHandle = c10::intrusive_ptr<c10d::Work>;

// "Float [2, 3]"
std::string shape_of(const at::Tensor& x);
std::string list_of(const std::vector<std::int64_t>& numbers);

class Group::Impl : public std::enable_shared_from_this<Group::Impl> {
 public:
  // One transfer of a grouped call.
  struct Transfer {
    int peer = 0;
    at::Tensor tensor;  // contiguous
  };

  Impl(std::string name, std::vector<int> members, int world_rank,
       const CommOptions& options, std::shared_ptr<Ledger> ledger);

  int size() const { return static_cast<int>(members.size()); }
  // The backend has grouped calls and sums of its own that are better than ours.
  bool grouped() const { return backend->supportsCoalescing(); }

  void connect(const Store& store);
  // Every collective once, on values that tell who sent what from where; not in the ledger.
  void prove();
  CollectiveRecord describe(Collective kind, std::uint64_t bytes) const;

  // Compares what the members are about to call, through the store, so that nothing is
  // sent when they differ. `call` says everything that must be equal: it is then seen for
  // the first time by all members in the same call.
  void agree(Collective kind, const std::string& call);

  // Sends and receives as one grouped call; empty tensors are left out on both sides.
  std::vector<WorkHandle> exchange(const std::vector<Transfer>& sends,
                                   const std::vector<Transfer>& receives);
  // theirs[i] from member i, mine[i] to it; this rank's own pair is left out.
  std::vector<WorkHandle> exchange_with_all(const std::vector<at::Tensor>& mine,
                                            const std::vector<at::Tensor>& theirs);

  // Runs issue() and enters the collective in the ledger. finish() makes the result once
  // the handles are done; it owns every tensor in use.
  Pending start(Collective kind, std::uint64_t bytes,
                const std::function<std::vector<WorkHandle>()>& issue,
                std::function<at::Tensor()> finish);

  std::string name;
  std::vector<int> members;
  int world_rank = 0;
  int rank = 0;
  CommOptions options;
  std::shared_ptr<Ledger> ledger;
  StoreHandle keys;
  BackendHandle backend;
  bool agreeing = true;       // false while a group is proved: the calls are known
  std::int64_t sequence = 0;  // of collectives
  std::int64_t texts = 0;     // of control messages
  std::set<std::string> seen;
};

}  // namespace hpplan::runtime
