#include "runtime/ring.h"

#include <ATen/ops/empty.h>

#include "planner/spec/error.h"
#include "runtime/lse_merge.h"

namespace hpplan::runtime {
namespace {

// A block of keys and values in one message, rows outermost: [N, B, 2, h_kv, d].
at::Tensor pack(const at::Tensor& k, const at::Tensor& v, std::int64_t rows) {
  at::Tensor both = at::empty({rows, k.size(0), 2, k.size(2), k.size(3)}, k.options());
  both.select(2, 0).copy_(k.narrow(1, 0, rows).transpose(0, 1));
  both.select(2, 1).copy_(v.narrow(1, 0, rows).transpose(0, 1));
  return both;
}
at::Tensor keys_of(const at::Tensor& packed) {
  return packed.select(2, 0).transpose(0, 1);
}
at::Tensor values_of(const at::Tensor& packed) {
  return packed.select(2, 1).transpose(0, 1);
}

// The running result of every set of queries.
class Answers {
 public:
  Answers(const std::vector<RingQueries>& queries, const RingOptions& options)
      : queries_(queries), options_(options), merges_(queries.size()) {}

  // Keys that everybody sees.
  void add(const at::Tensor& k, const at::Tensor& v) {
    for (std::size_t i = 0; i < queries_.size(); ++i)
      merges_[i].add(attend(options_.kernel, queries_[i].q, k, v, options_.scale));
  }
  // Keys of a sequence block: earlier than the causal queries' own (< 0), their own (0),
  // or later (> 0).
  void add_block(const at::Tensor& k, const at::Tensor& v, int order) {
    for (std::size_t i = 0; i < queries_.size(); ++i) {
      if (queries_[i].causal && order > 0) continue;
      merges_[i].add(attend(options_.kernel, queries_[i].q, k, v, options_.scale,
                            queries_[i].causal && order == 0));
    }
  }
  std::vector<at::Tensor> results() const {
    std::vector<at::Tensor> all;
    for (std::size_t i = 0; i < queries_.size(); ++i)
      all.push_back(merges_[i].result(queries_[i].q.scalar_type()));
    return all;
  }

 private:
  const std::vector<RingQueries>& queries_;
  const RingOptions& options_;
  std::vector<LseMerge> merges_;
};

}  // namespace

// q [B, M, h, d]; k, v [B, N, h_kv, d] -> [B, M, h, d]
std::vector<at::Tensor> ring_attention(const Group& group,
                                       const std::vector<RingQueries>& queries,
                                       const at::Tensor& k, const at::Tensor& v,
                                       const RowSplit& blocks, const SharedKeys& shared,
                                       const RingOptions& options) {
  const int size = group.size(), me = group.rank();
  HP_CHECK(
      blocks.parts() == size && k.size(1) == blocks.rows[static_cast<std::size_t>(me)],
      blocks.parts(), " blocks for ", size, " ranks, keys ", k.sizes());
  bool causal = false;
  for (const RingQueries& q : queries) causal = causal || q.causal;
  if (causal && blocks.padded())
    throw InputError("attention: causal and padded rows together are not supported");

  Answers answers(queries, options);
  if (shared.k.defined()) answers.add(shared.k, shared.v);
  const std::vector<std::int64_t>& valid = blocks.valid;
  const auto rows_of = [&](int i) { return valid[static_cast<std::size_t>(i)]; };

  if (size == 1) {
    answers.add_block(k.narrow(1, 0, rows_of(0)), v.narrow(1, 0, rows_of(0)), 0);
    return answers.results();
  }
  at::Tensor packed = pack(k, v, rows_of(me));
  if (options.method == RingMethod::kAllGather) {
    const at::Tensor all = group.all_gather(packed, 0, valid);
    const at::Tensor ks = keys_of(all), vs = values_of(all);
    if (!causal) {
      answers.add_block(ks, vs, -1);
      return answers.results();
    }
    std::int64_t before = 0;
    for (int i = 0; i < me; ++i) before += rows_of(i);
    const std::int64_t own = rows_of(me), after = ks.size(1) - before - own;
    const auto part = [&](std::int64_t begin, std::int64_t rows, int order) {
      answers.add_block(ks.narrow(1, begin, rows), vs.narrow(1, begin, rows), order);
    };
    part(0, before, -1);
    part(before, own, 0);
    part(before + own, after, 1);
    return answers.results();
  }
  for (int step = 0; step < size; ++step) {
    const int source = (me - step + size) % size;
    // The next block is under way while this one computes.
    Pending next;
    if (step + 1 < size) {
      std::vector<std::int64_t> sizes;
      for (int i = 0; i < size; ++i) sizes.push_back(rows_of((i - step + size) % size));
      next = group.shift_async(packed, sizes);
    }
    if (rows_of(source) > 0)
      answers.add_block(keys_of(packed), values_of(packed), source - me);
    if (step + 1 < size) packed = next.wait();
  }
  return answers.results();
}

}  // namespace hpplan::runtime
