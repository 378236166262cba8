// One block of MiniMax-H3 on one rank: pre-norm self-attention and SwiGLU feed-forward.
// Blocks of the stack get rows that are already modulated; those that refine the text use
// their own norms. Shapes: B batch, n rows of this rank, D hidden, H heads, d head_dim, F
// feed-forward width, T tp.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "runtime/attention.h"
#include "runtime/device_mesh.h"
#include "runtime/linear.h"
#include "runtime/models/h3_config.h"
#include "runtime/weights.h"

namespace hpplan::runtime {

// Reads weights onto this rank: cut by role, in a dtype, on its device; adds up what it
// holds.
class H3Loader {
 public:
  H3Loader(WeightSource& source, const DeviceMesh& mesh, at::ScalarType dtype);

  at::ScalarType dtype() const { return dtype_; }
  const Group& tp() const { return tp_; }
  std::int64_t bytes() const { return bytes_; }

  at::Tensor whole(const std::string& name, std::vector<std::int64_t> shape,
                   at::ScalarType dtype);
  at::Tensor cut(const std::string& name, std::vector<std::int64_t> shape, Role role,
                 std::vector<std::int64_t> parts = {});
  // Rows [begin, end) of a weight or bias.
  at::Tensor rows(const std::string& name, std::vector<std::int64_t> shape, Range range);
  // A norm's weight, as the stack's dtype has it, ready for fp32 arithmetic.
  at::Tensor norm(const std::string& name, std::int64_t width);

 private:
  at::Tensor read(const WeightSpec& spec, const Slice& slice, at::ScalarType dtype);

  WeightSource& source_;
  Group tp_;
  at::Device device_;
  at::ScalarType dtype_;
  std::int64_t bytes_ = 0;
};

// Rotary cos and sin of the rows at hand, [n, 3 * rope_freqs] fp32; undefined for no
// rotation.
struct Rotary {
  at::Tensor cos, sin;
};

class H3Block {
 public:
  // prefix: "transformer_blocks.0."; heads: how the attention this block is run with
  // divides the local heads over its ulysses group.
  H3Block(H3Loader& load, const std::string& prefix, const H3Config& config,
          const HeadSplit& heads);

  // [B, n, D] -> [B, n, D], summed over tp; the input is normed (and modulated) already.
  at::Tensor attention(const at::Tensor& x, const Attention& attend, const RowSplit& rows,
                       const Rotary& rotary) const;
  at::Tensor feed_forward(const at::Tensor& x) const;
  // A whole plain block: no modulation, no rotation.
  at::Tensor plain(const at::Tensor& x, const Attention& attend,
                   const RowSplit& rows) const;

  const at::Tensor& norm1() const { return norm1_; }  // [D] fp32
  const at::Tensor& norm2() const { return norm2_; }

 private:
  std::int64_t head_dim_;
  double norm_eps_, qk_norm_eps_;
  at::Tensor norm1_, norm2_, norm_q_, norm_k_;
  // For every member of the ulysses group [(its heads of q, then of k, then of v) * d, D];
  // padding heads are zero rows.
  std::vector<ColumnLinear> qkv_;
  RowLinear out_;         // [D, H/T * d]
  ColumnLinear up_gate_;  // [2 * F/T, D]: local up, then local gate
  RowLinear down_;        // [D, F/T]
};

}  // namespace hpplan::runtime
