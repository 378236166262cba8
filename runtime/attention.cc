#include "runtime/attention.h"

#include <ATen/ops/zeros.h>

#include <cmath>

#include "planner/spec/error.h"
#include "runtime/ring.h"

namespace hpplan::runtime {
namespace {

// x [B, M, h, d] with zero rows behind it, to `rows`.
at::Tensor with_rows(const at::Tensor& x, std::int64_t rows) {
  if (x.size(1) == rows) return x;
  at::Tensor padded = at::zeros({x.size(0), rows, x.size(2), x.size(3)}, x.options());
  padded.narrow(1, 0, x.size(1)).copy_(x);
  return padded;
}

}  // namespace

Attention::Attention(Group ulysses, Group ring, int heads, int kv_heads,
                     AttentionOptions options)
    : ulysses_(std::move(ulysses)),
      ring_(std::move(ring)),
      options_(options),
      heads_(split_heads(heads, kv_heads, ulysses_.size(), options.uneven_heads)) {}

at::Tensor Attention::operator()(const at::Tensor& qkv, const RowSplit& rows) const {
  return (*this)(qkv.select(2, 0), qkv.select(2, 1), qkv.select(2, 2), rows);
}

at::Tensor Attention::operator()(const at::Tensor& q, const at::Tensor& k,
                                 const at::Tensor& v, const RowSplit& rows) const {
  return run(q, k, v, rows, {}).rows;
}

Attention::Output Attention::joint(const at::Tensor& q, const at::Tensor& k,
                                   const at::Tensor& v, const RowSplit& rows,
                                   const JointRows& joint) const {
  return run(q, k, v, rows, joint);
}

Attention::Cut Attention::cut(const RowSplit& rows) const {
  const int members = ulysses_.size();
  HP_CHECK(rows.parts() == members * ring_.size(), rows.parts(),
           " parts of rows, ulysses ", members, ", ring ", ring_.size());
  Cut cut;
  for (int r = 0; r < ring_.size(); ++r) {
    cut.blocks.rows.push_back(0);
    cut.blocks.valid.push_back(0);
    for (int u = 0; u < members; ++u) {
      const auto part = static_cast<std::size_t>(r * members + u);
      cut.blocks.rows.back() += rows.rows[part];
      cut.blocks.valid.back() += rows.valid[part];
      if (r == ring_.rank()) cut.own.push_back(rows.rows[part]);
    }
  }
  return cut;
}

// q [B, n, h, d] -> [B, N, h/U, d] -> [B, n, h, d]
Attention::Output Attention::run(const at::Tensor& q, const at::Tensor& k,
                                 const at::Tensor& v, const RowSplit& rows,
                                 const JointRows& joint) const {
  const Cut here = cut(rows);
  const Ulysses exchange(ulysses_, heads_);
  return inside(exchange, exchange.to_heads(q, k, v, here.own), here, joint);
}

at::Tensor Attention::made(std::int64_t batch, std::int64_t head_dim,
                           const at::TensorOptions& options, const RowSplit& rows,
                           const Ulysses::FillHeads& fill) const {
  const Cut here = cut(rows);
  const Ulysses exchange(ulysses_, heads_);
  return inside(exchange, exchange.to_heads(batch, head_dim, options, here.own, fill), here,
                {})
      .rows;
}

// [B, N, h/U, d] -> [B, n, h, d]
Attention::Output Attention::inside(const Ulysses& exchange, const HeadsOfAllRows& all,
                                    const Cut& cut, const JointRows& joint) const {
  const RowSplit& blocks = cut.blocks;
  const auto here = static_cast<std::size_t>(ring_.rank());
  RingOptions how;
  how.method = options_.ring_method;
  how.scale = options_.scale > 0 ? options_.scale
                                 : 1.0 / std::sqrt(static_cast<double>(all.q.size(3)));
  const bool several = ring_.size() > 1 || joint.k.defined();
  how.kernel = kernel_for(all.q, several);
  std::vector<RingQueries> queries = {
      {all.q.narrow(1, 0, blocks.valid[here]), options_.causal}};
  SharedKeys shared;
  if (joint.k.defined()) {
    const HeadsOfAllRows text = exchange.own_heads(joint.q, joint.k, joint.v);
    queries.push_back({text.q, false});
    shared = {text.k, text.v};
  }
  const std::vector<at::Tensor> out =
      ring_attention(ring_, queries, all.k, all.v, blocks, shared, how);
  Output result;
  result.rows = exchange.to_rows(with_rows(out[0], blocks.rows[here]), cut.own);
  if (joint.k.defined()) result.joint = exchange.gather_heads(out[1]);
  return result;
}

// Chosen once for each kind of tensor: the choice runs small kernels.
Kernel Attention::kernel_for(const at::Tensor& q, bool need_lse) const {
  if (options_.kernel) return *options_.kernel;
  const auto kind =
      std::make_tuple(q.scalar_type(), q.device().type(), q.size(3), need_lse);
  const auto it = chosen_.find(kind);
  if (it != chosen_.end()) return it->second;
  return chosen_[kind] = choose_kernel(q, need_lse);
}

std::map<std::string, std::int64_t> Attention::collectives() const {
  std::map<std::string, std::int64_t> counts;
  const auto name = [](const Group& group, Collective kind) {
    return concat(group.name(), "/", to_string(kind));
  };
  if (ulysses_.size() > 1) counts[name(ulysses_, Collective::kAllToAll)] = 2;
  if (ring_.size() > 1 && options_.ring_method == RingMethod::kP2p)
    counts[name(ring_, Collective::kShift)] = ring_.size() - 1;
  if (ring_.size() > 1 && options_.ring_method == RingMethod::kAllGather)
    counts[name(ring_, Collective::kAllGather)] = 1;
  return counts;
}

}  // namespace hpplan::runtime
