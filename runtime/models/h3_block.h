// One block of MiniMax-H3 on one rank: pre-norm self-attention and SwiGLU feed-forward,
// each modulated by a table row chosen per row; and the plain blocks that refine the
// text. Shapes: B batch, S the sequence's rows, n = S / (ring * ulysses) local rows, D
// hidden, H heads, d head_dim, F feed-forward width, T tp.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "runtime/models/fused_ops.h"
#include "runtime/models/h3_config.h"
#include "runtime/weights.h"

namespace hpplan::runtime {

// Weights of a block as this rank holds them, in the dtype of the block stack.
struct H3BlockWeights {
  at::Tensor norm1, norm2;    // [D] fp32
  at::Tensor qkv;             // [3 * H/T * d, D]: local heads of q, then of k, then of v
  at::Tensor norm_q, norm_k;  // [d] fp32
  at::Tensor out;             // [D, H/T * d]
  at::Tensor up_gate;         // [2 * F/T, D]: local up, then local gate
  at::Tensor down;            // [D, F/T]
};

// Reads the block called `prefix` ("transformer_blocks.0.").
H3BlockWeights load_h3_block(WeightSource& source, const std::string& prefix,
                             const H3Config& config, int tp, int tp_rank,
                             at::ScalarType dtype);

}  // namespace hpplan::runtime
