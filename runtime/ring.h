// Attention while K and V of the other sequence blocks are fetched over the ring group:
// p2p (each hop is in flight while the block before it computes) or allgather (all at
// once). Blocks may hold different numbers of rows, and rows at the tail that are only
// padding; those are cut off and never seen by a query.
//
// Shapes: B batch, N rows of this block, h heads of this rank, d head_dim.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "planner/spec/mesh.h"
#include "runtime/attention_kernels.h"
#include "runtime/group.h"
#include "runtime/split.h"

namespace hpplan::runtime {

struct RingOptions {
  RingMethod method = RingMethod::kP2p;
  Kernel kernel = Kernel::kMath;
  double scale = 1;
};

// K and V that every rank of the group holds; they enter the softmax once.
struct SharedKeys {
  at::Tensor k, v;  // [B, T, h_kv, d]; undefined: none
};

// Queries that ask all blocks. causal: they are the rows of this rank's own block, and
// see their own and earlier rows of the blocks (of shared keys, all).
struct RingQueries {
  at::Tensor q;  // [B, M, h, d]
  bool causal = false;
};

// k and v [B, N, h_kv, d], this rank's block. blocks.rows[i], .valid[i]: rows of member
// i's block. -> for each of the queries [B, M, h, d] in its dtype. Throws InputError for
// causal queries of padded blocks.
std::vector<at::Tensor> ring_attention(const Group& group,
                                       const std::vector<RingQueries>& queries,
                                       const at::Tensor& k, const at::Tensor& v,
                                       const RowSplit& blocks, const SharedKeys& shared,
                                       const RingOptions& options);

}  // namespace hpplan::runtime
