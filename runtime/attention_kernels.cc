#include "runtime/attention_kernels.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <cmath>
#include <limits>

#include "planner/spec/error.h"
#include "runtime/lse_merge.h"
#include "runtime/phases.h"

namespace hpplan::runtime {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

// [B, N, h_kv, d] -> [B, N, h, d], each head `ratio` times in a row; a view where 1.
at::Tensor repeat_heads(const at::Tensor& x, std::int64_t ratio) {
  if (ratio == 1) return x;
  return x.unsqueeze(3)
      .expand({x.size(0), x.size(1), x.size(2), ratio, x.size(3)})
      .reshape({x.size(0), x.size(1), x.size(2) * ratio, x.size(3)});
}

// q, k, v [B, h, rows, d]. Scores in at least fp32.
Partial math(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
             bool causal) {
  const at::ScalarType wide = c10::promoteTypes(q.scalar_type(), at::kFloat);
  at::Tensor scores = at::matmul(q.to(wide) * scale, k.to(wide).transpose(2, 3));
  if (causal) {
    const at::Tensor later =
        at::ones({q.size(2), k.size(2)}, scores.options().dtype(at::kBool)).triu(1);
    scores = scores.masked_fill(later, kNothing);
  }
  const at::Tensor lse = at::logsumexp(scores, {-1});
  const at::Tensor out = at::matmul((scores - lse.unsqueeze(-1)).exp(), v.to(wide));
  return {out.transpose(1, 2).to(q.scalar_type()), lse};
}

}  // namespace

std::string_view to_string(Kernel kernel) {
  constexpr std::array<std::string_view, 5> kNames = {
      "cpu_flash", "cuda_flash", "cuda_efficient", "cuda_cudnn", "math"};
  return kNames[static_cast<std::size_t>(kernel)];
}

Partial attend(Kernel kernel, const at::Tensor& q, const at::Tensor& k,
               const at::Tensor& v, double scale, bool causal) {
  const InPhase phase(Phase::kAttention);
  const std::int64_t batch = q.size(0), rows = q.size(1), heads = q.size(2);
  HP_CHECK(k.sizes() == v.sizes() && k.size(0) == batch && k.size(3) == q.size(3) &&
               heads % k.size(2) == 0,
           q.sizes(), " on ", k.sizes(), " and ", v.sizes());
  HP_CHECK(!causal || rows == k.size(1), rows, " queries of ", k.size(1), " keys");
  if (rows == 0 || k.size(1) == 0) {
    return {at::zeros(q.sizes(), q.options()),
            at::full({batch, heads, rows}, kNothing, q.options().dtype(at::kFloat))};
  }
  // Kernels want [B, h, rows, d]; strides carry the rest.
  const std::int64_t ratio = heads / k.size(2);
  const at::Tensor qt = q.transpose(1, 2);
  const at::Tensor kt = repeat_heads(k, ratio).transpose(1, 2);
  const at::Tensor vt = repeat_heads(v, ratio).transpose(1, 2);
  Partial block;
  switch (kernel) {
    case Kernel::kCpuFlash: {
      const auto r = at::_scaled_dot_product_flash_attention_for_cpu(qt, kt, vt, 0.0,
                                                                     causal, {}, scale);
      block = {std::get<0>(r).transpose(1, 2), std::get<1>(r)};
      break;
    }
    case Kernel::kCudaFlash: {
      const auto r =
          at::_scaled_dot_product_flash_attention(qt, kt, vt, 0.0, causal, false, scale);
      block = {std::get<0>(r).transpose(1, 2), std::get<1>(r)};
      break;
    }
    case Kernel::kCudaEfficient: {
      const auto r = at::_scaled_dot_product_efficient_attention(qt, kt, vt, {}, true,
                                                                 0.0, causal, scale);
      // Its rows are padded to a multiple of 32.
      block = {std::get<0>(r).transpose(1, 2), std::get<1>(r).narrow(2, 0, rows)};
      break;
    }
    case Kernel::kCudaCudnn: {
      const auto r = at::_scaled_dot_product_cudnn_attention(qt, kt, vt, {}, true, 0.0,
                                                             causal, false, scale);
      block = {std::get<0>(r).transpose(1, 2), std::get<1>(r)};
      break;
    }
    case Kernel::kMath:
      block = math(qt, kt, vt, scale, causal);
      break;
  }
  block.lse = canonical_lse(block.lse, batch, heads, rows);
  return block;
}

double conformance_error(Kernel kernel, at::Device device, at::ScalarType dtype,
                         std::int64_t head_dim) {
  // Two blocks of 40 and 3 keys, the mean of K +1 in one and -1 in the other: a base
  // other than e, a shift by the mean, or a lost scale each move the merged output far
  // beyond rounding.
  constexpr std::int64_t kLong = 40, kShort = 3, kRows = 17, kHeads = 2;
  const auto wave = [&](std::int64_t rows, double step, double mean) {
    const std::int64_t n = rows * kHeads * head_dim;
    at::Tensor x = at::ones({n}, at::kDouble).cumsum(0).mul_(step).sin_().add_(mean);
    return x.view({1, rows, kHeads, head_dim});
  };
  const double scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
  const at::Tensor q = wave(kRows, 0.7, 0.05).to(dtype);
  const at::Tensor k =
      at::cat({wave(kLong, 1.3, 1.0), wave(kShort, 1.9, -1.0)}, 1).to(dtype);
  const at::Tensor v = wave(kLong + kShort, 2.3, 0.2).to(dtype);
  const at::Tensor whole =
      math(q.to(at::kDouble).transpose(1, 2), k.to(at::kDouble).transpose(1, 2),
           v.to(at::kDouble).transpose(1, 2), scale, false)
          .out;
  const auto on = [&](const at::Tensor& x) { return x.to(device); };
  LseMerge merge;
  merge.add(
      attend(kernel, on(q), on(k.narrow(1, 0, kLong)), on(v.narrow(1, 0, kLong)), scale));
  merge.add(attend(kernel, on(q), on(k.narrow(1, kLong, kShort)),
                   on(v.narrow(1, kLong, kShort)), scale));
  const at::Tensor merged = merge.result(at::kFloat).to(at::kCPU).to(at::kDouble);
  return ((merged - whole).norm() / whole.norm()).item<double>();
}

Kernel choose_kernel(const at::Tensor& q, bool need_lse) {
  const at::ScalarType dtype = q.scalar_type();
  const bool half = dtype == at::kBFloat16 || dtype == at::kHalf;
  const std::int64_t head_dim = q.size(-1);
  std::vector<Kernel> fastest_first;
  if (q.is_cpu() && (half || dtype == at::kFloat))
    fastest_first.push_back(Kernel::kCpuFlash);
  if (q.is_cuda() && half && head_dim % 8 == 0 && head_dim <= 256)
    fastest_first.push_back(Kernel::kCudaFlash);
  if (q.is_cuda() && (half || dtype == at::kFloat) && head_dim % 8 == 0)
    fastest_first.push_back(Kernel::kCudaEfficient);
  for (const Kernel kernel : fastest_first) {
    if (!need_lse) return kernel;
    // bf16 rounds at 2^-8; a wrong LSE is off by tens of percent.
    const double limit = half ? 0.02 : 1e-5;
    if (conformance_error(kernel, q.device(), dtype, head_dim) <= limit) return kernel;
  }
  return Kernel::kMath;
}

}  // namespace hpplan::runtime
