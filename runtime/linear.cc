#include "runtime/linear.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/stack.h>

#include <numeric>

#include "planner/spec/error.h"
#include "runtime/phases.h"

namespace hpplan::runtime {

std::vector<Range> shard_ranges(const std::vector<std::int64_t>& parts, int degree,
                                int rank) {
  std::vector<Range> ranges;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] % degree != 0)
      throw InputError(concat("tp: part ", i, " of a fused weight has ", parts[i],
                              " rows, which do not divide by ", degree));
    const std::int64_t each = parts[i] / degree;
    ranges.push_back({begin + rank * each, begin + (rank + 1) * each});
    begin += parts[i];
  }
  return ranges;
}

at::Tensor shard(const at::Tensor& whole, std::int64_t dim,
                 const std::vector<std::int64_t>& parts, int degree, int rank) {
  HP_CHECK(
      std::accumulate(parts.begin(), parts.end(), std::int64_t{0}) == whole.size(dim),
      whole.sizes(), " along ", dim);
  std::vector<at::Tensor> pieces;
  for (const Range& range : shard_ranges(parts, degree, rank))
    pieces.push_back(whole.narrow(dim, range.begin, range.size()));
  return at::cat(pieces, dim);
}

at::Tensor unshard(const std::vector<at::Tensor>& shards, std::int64_t dim,
                   const std::vector<std::int64_t>& parts) {
  const auto degree = static_cast<std::int64_t>(shards.size());
  std::vector<at::Tensor> pieces;
  std::int64_t begin = 0;
  for (const std::int64_t part : parts) {
    for (const at::Tensor& own : shards)
      pieces.push_back(own.narrow(dim, begin, part / degree));
    begin += part / degree;
  }
  return at::cat(pieces, dim);
}

// [..., in] -> [..., out/T]
at::Tensor ColumnLinear::operator()(const at::Tensor& x) const {
  const InPhase phase(Phase::kLinear);
  return at::linear(x, weight_, bias_);
}

void ColumnLinear::into(const at::Tensor& x, at::Tensor out) const {
  const InPhase phase(Phase::kLinear);
  if (bias_.defined()) {
    at::addmm_out(out, bias_, x, weight_.t());
  } else {
    at::mm_out(out, x, weight_.t());
  }
}

// [..., in/T] -> [..., out], of this rank's columns only
at::Tensor RowLinear::partial(const at::Tensor& x) const {
  const InPhase phase(Phase::kLinear);
  return at::linear(x, weight_);
}

// [..., in/T] -> [..., out]
at::Tensor RowLinear::operator()(const at::Tensor& x) const {
  at::Tensor sum = tp_.all_reduce(partial(x));
  return bias_.defined() ? sum.add_(bias_) : sum;
}

at::Tensor RowLinear::sum_of(const std::vector<const RowLinear*>& layers,
                             const std::vector<at::Tensor>& inputs) {
  HP_CHECK(!layers.empty() && layers.size() == inputs.size(), layers.size(), " layers, ",
           inputs.size(), " inputs");
  at::Tensor sum = layers[0]->partial(inputs[0]);
  for (std::size_t i = 1; i < layers.size(); ++i) sum.add_(layers[i]->partial(inputs[i]));
  sum = layers[0]->tp_.all_reduce(sum);
  for (const RowLinear* layer : layers)
    if (layer->bias_.defined()) sum.add_(layer->bias_);
  return sum;
}

// [..., W/T] -> [..., W/T]
at::Tensor sharded_rms_norm(const Group& tp, const at::Tensor& x,
                            const at::Tensor& weight, double eps) {
  const at::Tensor wide = x.to(c10::promoteTypes(x.scalar_type(), at::kFloat));
  const at::Tensor squares = tp.all_reduce(wide.pow(2).sum(-1, true));
  const auto width = static_cast<double>(x.size(-1)) * tp.size();
  at::Tensor y = wide * at::rsqrt(squares / width + eps);
  if (weight.defined()) y = y * weight;
  return y.to(x.scalar_type());
}

// [..., W/T] -> [..., W/T]
at::Tensor sharded_layer_norm(const Group& tp, const at::Tensor& x,
                              const at::Tensor& weight, const at::Tensor& bias,
                              double eps) {
  const at::Tensor wide = x.to(c10::promoteTypes(x.scalar_type(), at::kFloat));
  // Each rank's own mean and spread around it, so that nothing large is subtracted from
  // something large: var = mean of (own variance + (own mean - mean)^2).
  const at::Tensor own_mean = wide.mean(-1, true);
  const at::Tensor own_variance = (wide - own_mean).pow(2).mean(-1, true);
  const at::Tensor all =
      tp.all_gather(at::stack({own_mean, own_variance}).unsqueeze(0), 0);
  const at::Tensor mean = all.select(1, 0).mean(0);
  const at::Tensor variance =
      (all.select(1, 1) + (all.select(1, 0) - mean).pow(2)).mean(0);
  at::Tensor y = (wide - mean) * at::rsqrt(variance + eps);
  if (weight.defined()) y = y * weight;
  if (bias.defined()) y = y + bias;
  return y.to(x.scalar_type());
}

}  // namespace hpplan::runtime
