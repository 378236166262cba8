// Elementwise passes of a transformer block, each one pass over memory: norms are taken
// in fp32 whatever the rows are stored in, and rounded once. CPU tensors go through loops
// of ours, others through ATen. Rows are [batch, rows, width], contiguous in width;
// tables are fp32.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace hpplan::runtime {

// Consecutive rows that share one row of a table.
struct Run {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t table_row = 0;
};

// rms(x) * weight, over the last dimension.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

// rms(x) * scale[t] + shift[t], t the table row of each row's run. scale: norm weight
// times (1 + modulation).
at::Tensor rms_norm_modulated(const at::Tensor& x, const std::vector<Run>& runs,
                              const at::Tensor& scale, const at::Tensor& shift,
                              double eps);

// x += gate[t] * y, in place.
void add_gated(at::Tensor& x, const at::Tensor& y, const std::vector<Run>& runs,
               const at::Tensor& gate);

// The same, and at once the norm of the sum: one pass where two would read x again.
at::Tensor add_gated_norm(at::Tensor& x, const at::Tensor& y,
                          const std::vector<Run>& runs, const at::Tensor& gate,
                          const at::Tensor& scale, const at::Tensor& shift, double eps);

// In place on heads [batch, rows, heads, head_dim]: rms over a head times weight, then
// the leading 2 * cos.size(1) channels rotated, halves paired. cos, sin: [rows, n], or
// undefined for no rotation.
void norm_rope(at::Tensor heads, const at::Tensor& weight, double eps,
               const at::Tensor& cos, const at::Tensor& sin);

// gate_up [.., 2F] -> up * silu(gate) [.., F]; the first half is `up`.
at::Tensor swiglu(const at::Tensor& up_gate);

// The same formulas as ATen operations, for any device: what tensors that are not on the
// CPU go through.
namespace plain_ops {
at::Tensor rms_norm_modulated(const at::Tensor& x, const std::vector<Run>& runs,
                              const at::Tensor& scale, const at::Tensor& shift,
                              double eps);
void add_gated(at::Tensor& x, const at::Tensor& y, const std::vector<Run>& runs,
               const at::Tensor& gate);
void norm_rope(at::Tensor heads, const at::Tensor& weight, double eps,
               const at::Tensor& cos, const at::Tensor& sin);
at::Tensor swiglu(const at::Tensor& up_gate);
}  // namespace plain_ops

}  // namespace hpplan::runtime
