#include "runtime/lse_merge.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/where.h>

#include <cmath>
#include <limits>

#include "planner/spec/error.h"
#include "runtime/phases.h"

namespace hpplan::runtime {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

// max + log1p(exp(-|a - b|)): no exponent grows, and nothing plus nothing is nothing.
float log_add(float a, float b) {
  if (a == kNothing) return b;
  if (b == kNothing) return a;
  return std::max(a, b) + std::log1p(std::exp(-std::fabs(a - b)));
}

// out [B, M, h, d] fp32 contiguous, lse [B, h, M] fp32 contiguous: one pass over both.
template <class T>
void merge_on_cpu(at::Tensor& out, at::Tensor& lse, const at::Tensor& more,
                  const at::Tensor& more_lse) {
  const std::int64_t rows = out.size(1), heads = out.size(2), width = out.size(3);
  float* const o = out.data_ptr<float>();
  float* const l = lse.data_ptr<float>();
  const T* const b = more.const_data_ptr<T>();
  const float* const bl = more_lse.const_data_ptr<float>();
  const auto stride = more.strides();
  const auto lstride = more_lse.strides();
  HP_CHECK(stride[3] == 1 || width == 1, "channels of a head are apart: ", stride);
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / (heads * width));
  at::parallel_for(
      0, out.size(0) * rows, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t n = i / rows, m = i % rows;
          for (std::int64_t h = 0; h < heads; ++h) {
            float& have = l[(n * heads + h) * rows + m];
            const float add = bl[n * lstride[0] + h * lstride[1] + m * lstride[2]];
            if (add == kNothing) continue;
            const float both = log_add(have, add);
            const float weight = std::exp(add - both);
            have = both;
            float* const to = o + (i * heads + h) * width;
            const T* const from = b + n * stride[0] + m * stride[1] + h * stride[2];
            for (std::int64_t c = 0; c < width; ++c)
              to[c] += weight * (static_cast<float>(from[c]) - to[c]);
          }
        }
      });
}

void merge_anywhere(at::Tensor& out, at::Tensor& lse, const at::Tensor& more,
                    const at::Tensor& more_lse) {
  const at::Tensor both = at::logaddexp(lse, more_lse);
  const at::Tensor nothing = more_lse == kNothing;
  const at::Tensor weight = at::where(nothing, 0.0, at::exp(more_lse - both));
  const at::Tensor w = weight.transpose(1, 2).unsqueeze(-1);
  out = at::where(w == 0, out, out + w * (more.to(at::kFloat) - out));
  lse = at::where(nothing, lse, both);
}

}  // namespace

at::Tensor canonical_lse(const at::Tensor& lse, std::int64_t batch, std::int64_t heads,
                         std::int64_t rows) {
  const at::Tensor three = lse.dim() == 4 && lse.size(3) == 1 ? lse.squeeze(3) : lse;
  HP_CHECK(three.dim() == 3 && three.size(0) == batch && three.size(1) == heads &&
               three.size(2) == rows,
           "log-sum-exp ", lse.sizes(), " of [", batch, ", ", heads, ", ", rows, "]");
  return three.to(at::kFloat);
}

void LseMerge::add(const Partial& block) {
  const InPhase phase(Phase::kAttention);
  if (empty()) {
    out_ = block.out;
    lse_ = canonical_lse(block.lse, out_.size(0), out_.size(2), out_.size(1));
    first_only_ = true;
    return;
  }
  HP_CHECK(block.out.sizes() == out_.sizes(), block.out.sizes(), " into ", out_.sizes());
  const at::Tensor lse =
      canonical_lse(block.lse, out_.size(0), out_.size(2), out_.size(1));
  if (first_only_) {
    // From here on in fp32, in tensors of our own.
    const at::Tensor first = out_;
    out_ = at::empty(first.sizes(), first.options().dtype(at::kFloat));
    out_.copy_(first);
    lse_ = lse_.clone(at::MemoryFormat::Contiguous);
    first_only_ = false;
  }
  if (!out_.is_cpu()) return merge_anywhere(out_, lse_, block.out, lse);
  const at::Tensor more =
      block.out.scalar_type() == at::kDouble ? block.out.to(at::kFloat) : block.out;
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, more.scalar_type(),
                                  "lse_merge",
                                  [&] { merge_on_cpu<scalar_t>(out_, lse_, more, lse); });
}

at::Tensor LseMerge::result(at::ScalarType dtype) const {
  HP_CHECK(!empty(), "no block was added");
  return out_.to(dtype);
}

}  // namespace hpplan::runtime
