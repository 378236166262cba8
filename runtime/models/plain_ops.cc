#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/silu.h>

#include "runtime/models/fused_ops.h"

namespace hpplan::runtime::plain_ops {
namespace {

// Rows of `table` at the runs' table rows, one a row of x.
at::Tensor spread(const at::Tensor& table, const std::vector<Run>& runs) {
  std::vector<at::Tensor> pieces;
  for (const Run& r : runs) {
    pieces.push_back(
        table.narrow(0, r.table_row, 1).expand({r.end - r.begin, table.size(1)}));
  }
  return at::cat(pieces, 0);
}

at::Tensor norm_fp32(const at::Tensor& x, double eps) {
  const at::Tensor wide = x.to(at::kFloat);
  return wide * at::rsqrt(wide.square().mean(-1, true) + eps);
}

}  // namespace

at::Tensor rms_norm_modulated(const at::Tensor& x, const std::vector<Run>& runs,
                              const at::Tensor& scale, const at::Tensor& shift,
                              double eps) {
  const at::Tensor scaled = norm_fp32(x, eps) * spread(scale, runs);
  return (shift.defined() ? scaled + spread(shift, runs) : scaled).to(x.scalar_type());
}

void add_gated(at::Tensor& x, const at::Tensor& y, const std::vector<Run>& runs,
               const at::Tensor& gate) {
  x.copy_(x.to(at::kFloat) + spread(gate, runs) * y.to(at::kFloat));
}

void norm_rope(at::Tensor heads, const at::Tensor& weight, double eps,
               const at::Tensor& cos, const at::Tensor& sin) {
  at::Tensor x = norm_fp32(heads, eps) * weight.to(at::kFloat);
  if (cos.defined()) {
    const std::int64_t half = cos.size(1);
    const at::Tensor a = x.narrow(3, 0, half), b = x.narrow(3, half, half);
    const at::Tensor c = cos.unsqueeze(1), s = sin.unsqueeze(1);
    x = at::cat(
        {a * c - b * s, b * c + a * s, x.narrow(3, 2 * half, x.size(3) - 2 * half)}, 3);
  }
  heads.copy_(x);
}

at::Tensor swiglu(const at::Tensor& up_gate) {
  const std::int64_t f = up_gate.size(-1) / 2;
  const at::Tensor wide = up_gate.to(at::kFloat);
  return (wide.narrow(-1, 0, f) * at::silu(wide.narrow(-1, f, f)))
      .to(up_gate.scalar_type());
}

}  // namespace hpplan::runtime::plain_ops
