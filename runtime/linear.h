// Linear layers and norms whose width is divided over the tp group, and the one place
// that says which rows of a fused weight a rank holds. A layer is handed its group; with
// one rank every function below is the plain layer.
//
// Shapes: weight [out, in]; T ranks; x [..., in].
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "runtime/group.h"
#include "runtime/split.h"

namespace hpplan::runtime {

// Where the local pieces of a fused dimension lie in the whole one: each part is divided
// on its own, so a rank holds one range of every part. Throws InputError naming the part
// that does not divide.
std::vector<Range> shard_ranges(const std::vector<std::int64_t>& parts, int degree,
                                int rank);
// The local pieces laid side by side, contiguous.
at::Tensor shard(const at::Tensor& whole, std::int64_t dim,
                 const std::vector<std::int64_t>& parts, int degree, int rank);
// The inverse, from the shards of all ranks in order.
at::Tensor unshard(const std::vector<at::Tensor>& shards, std::int64_t dim,
                   const std::vector<std::int64_t>& parts);

// Output rows divided: y is local and stays so. weight [out/T, in], bias [out/T] or
// undefined.
class ColumnLinear {
 public:
  ColumnLinear(at::Tensor weight, at::Tensor bias)
      : weight_(std::move(weight)), bias_(std::move(bias)) {}
  at::Tensor operator()(const at::Tensor& x) const;  // [..., in] -> [..., out/T]
  // x [n, in] -> out [n, out/T], which is contiguous and somebody else's.
  void into(const at::Tensor& x, at::Tensor out) const;

 private:
  at::Tensor weight_, bias_;
};

// Input columns divided: local products are summed over the group, the bias (whole on
// every rank) added once after it. weight [out, in/T], bias [out] or undefined.
class RowLinear {
 public:
  RowLinear(Group tp, at::Tensor weight, at::Tensor bias)
      : tp_(std::move(tp)), weight_(std::move(weight)), bias_(std::move(bias)) {}
  at::Tensor operator()(const at::Tensor& x) const;  // [..., in/T] -> [..., out]
  // Without the sum and the bias; see sum_of().
  at::Tensor partial(const at::Tensor& x) const;
  // Several row-parallel products in one sum: each bias enters once.
  static at::Tensor sum_of(const std::vector<const RowLinear*>& layers,
                           const std::vector<at::Tensor>& inputs);

 private:
  Group tp_;
  at::Tensor weight_, bias_;
};

// RMS norm over a width that is divided: the sum of squares goes over the group, divided
// by the whole width. x [..., W/T], weight [W/T] or undefined.
at::Tensor sharded_rms_norm(const Group& tp, const at::Tensor& x,
                            const at::Tensor& weight, double eps);
// Layer norm likewise; mean and variance go in one gather.
at::Tensor sharded_layer_norm(const Group& tp, const at::Tensor& x,
                              const at::Tensor& weight, const at::Tensor& bias,
                              double eps);

}  // namespace hpplan::runtime
