// Group: the ranks that share one axis of the mesh, as a value handle. Every operation is
// called by all members in the same order, with tensors that agree in shape and dtype
// (checked through the store the first time a shape occurs, before anything is sent). A
// group of one is the identity: it returns its input, moves nothing and counts nothing,
// so no caller asks whether it is parallel. rank() is the place in the plan's order of
// the group, never a sorted one.
//
// Results are the buffers that were written: use them, not the argument. Failures throw
// CommError (ledger.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/ledger.h"
#include "runtime/store.h"

namespace hpplan::runtime {

enum class ReduceOp : std::uint8_t { kSum, kMax, kMin };
enum class Backend : std::uint8_t { kAuto, kGloo, kNccl };  // kAuto: nccl for GPUs
enum class CheckCalls : std::uint8_t { kFirst, kEvery };    // when shapes are compared

struct CommOptions {
  Backend backend = Backend::kAuto;
  std::chrono::milliseconds timeout{std::chrono::minutes(5)};  // of one collective
  std::string interface;  // network interface for gloo; "": the host's own address
  CheckCalls checks = CheckCalls::kFirst;
  int device = -1;  // index of the accelerator; -1: the CPU
};

// A collective in flight. The tensors it works on live as long as it does.
class Pending {
 public:
  Pending() = default;  // nothing in flight, undefined result
  explicit Pending(at::Tensor done) : result_(std::move(done)) {}
  // The result. Waits the first time.
  at::Tensor wait();

  class Work;
  Pending(std::shared_ptr<Work> work, at::Tensor result);

 private:
  std::shared_ptr<Work> work_;
  at::Tensor result_;
};

// elements[i][j] of a tensor's leading dimension go from member i to member j; the same
// table, made from the plan, on every member.
using SizeTable = std::vector<std::vector<std::int64_t>>;

class Group {
 public:
  // A group of one.
  Group() = default;
  // Connects to the other members and runs every collective once on known values, so that
  // every later operation, a shift among them, finds its connections open and its kernel
  // proved. Throws CommError naming the one whose result is wrong. members: world ranks in
  // group order. Collective over the members.
  static Group open(const std::string& name, std::vector<int> members, int world_rank,
                    const Store& store, const CommOptions& options,
                    std::shared_ptr<Ledger> ledger);

  int size() const;
  int rank() const;
  std::string name() const;          // the axis; "" for a default group of one
  std::vector<int> members() const;  // world ranks, in group order

  // The sum over the members, in place where x is contiguous.
  at::Tensor all_reduce(const at::Tensor& x, ReduceOp op = ReduceOp::kSum) const;
  Pending all_reduce_async(const at::Tensor& x, ReduceOp op = ReduceOp::kSum) const;

  // The members' tensors laid one after the other along dim, in group order.
  at::Tensor all_gather(const at::Tensor& x, std::int64_t dim) const;
  // The same when member i has sizes[i] along dim; a size may be 0.
  at::Tensor all_gather(const at::Tensor& x, std::int64_t dim,
                        const std::vector<std::int64_t>& sizes) const;
  Pending all_gather_async(const at::Tensor& x, std::int64_t dim,
                           const std::vector<std::int64_t>& sizes) const;

  // The sum's part of this rank: dim is cut evenly.
  at::Tensor reduce_scatter(const at::Tensor& x, std::int64_t dim) const;

  // x [sum of this rank's row of the table, ...] -> [sum of its column, ...], cut and
  // laid in group order.
  at::Tensor all_to_all(const at::Tensor& x, const SizeTable& table) const;
  Pending all_to_all_async(const at::Tensor& x, const SizeTable& table) const;
  // Even: x's leading dimension is size() times the same count.
  at::Tensor all_to_all(const at::Tensor& x) const;
  // The same for a flat tensor whose sections are made one after the other: make(i, section)
  // fills what goes to member i. What is made first is under way while the rest is made, and
  // this rank's own section is made last, where it belongs in the result.
  using MakeSection = std::function<void(int member, const at::Tensor& section)>;
  at::Tensor all_to_all(const SizeTable& table, const at::TensorOptions& options,
                        const MakeSection& make) const;

  // Sends x to the member after this one and receives that of the member before, as one
  // grouped call. sizes[i]: leading size of what member i sends (0: nothing); empty: all
  // send what this one does.
  at::Tensor shift(const at::Tensor& x,
                   const std::vector<std::int64_t>& sizes = {}) const;
  Pending shift_async(const at::Tensor& x,
                      const std::vector<std::int64_t>& sizes = {}) const;

  at::Tensor broadcast(const at::Tensor& x, int root) const;
  void barrier() const;

  // Every member's text, in group order. A control message: not counted.
  std::vector<std::string> all_gather_text(const std::string& text) const;

  class Impl;

 private:
  explicit Group(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;  // null for a group of one that was never opened
};

}  // namespace hpplan::runtime
