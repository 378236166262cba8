// The running result of attention over blocks of keys: output and log-sum-exp in fp32,
// merged in the stable form, cast once at the end. The order of blocks does not matter
// beyond rounding, and a block in which a row sees no key changes nothing.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/attention_kernels.h"

namespace hpplan::runtime {

class LseMerge {
 public:
  // Adds a block. All blocks have the same shapes.
  void add(const Partial& block);
  bool empty() const { return !out_.defined(); }
  // [B, M, h, d]; zeros where a row saw no key in any block.
  at::Tensor result(at::ScalarType dtype) const;
  const at::Tensor& lse() const { return lse_; }  // [B, h, M] fp32

 private:
  at::Tensor out_, lse_;
  bool first_only_ = false;  // out_ is still the first block itself
};

// [B, h, M], also when the kernel returns it with a trailing axis of one; HP_CHECK on
// anything else. In fp32.
at::Tensor canonical_lse(const at::Tensor& lse, std::int64_t batch, std::int64_t heads,
                         std::int64_t rows);

}  // namespace hpplan::runtime
