// One adapter over ATen's fused attention kernels. Whatever kernel ran, the log-sum-exp
// that comes back is the same thing: natural logarithm, fp32, [B, h, rows of q], of the
// scaled scores as they are, with no shift. Only kernels that pass the conformance test
// (blocks of unequal size and of different mean of K, merged and compared with whole
// attention) may take part in a ring.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace hpplan::runtime {

enum class Kernel : std::uint8_t {
  kCpuFlash,
  kCudaFlash,      // bf16, fp16
  kCudaEfficient,  // fp32 too
  kCudaCudnn,      // bf16, fp16
  kMath,           // plain ATen, any device and dtype; slow
};
std::string_view to_string(Kernel kernel);

// Attention of some queries over some keys: normalized within the block.
struct Partial {
  at::Tensor out;  // [B, rows of q, h, d], q's dtype
  at::Tensor lse;  // [B, h, rows of q] fp32; -inf where a row sees no key
};

// q [B, M, h, d], k and v [B, N, h_kv, d] with h a multiple of h_kv; N may be 0. causal:
// row i sees keys 0..i (needs M == N). Heads of k and v are repeated for the kernel only.
Partial attend(Kernel kernel, const at::Tensor& q, const at::Tensor& k,
               const at::Tensor& v, double scale, bool causal = false);

// Relative L2 error of two merged blocks against whole attention in float64.
double conformance_error(Kernel kernel, at::Device device, at::ScalarType dtype,
                         std::int64_t head_dim);

// The fastest kernel for tensors like q. need_lse: its blocks will be merged; only
// kernels that conform are then chosen (tried here, on small tensors).
Kernel choose_kernel(const at::Tensor& q, bool need_lse);

}  // namespace hpplan::runtime
