// Seconds of one attention call alone over ulysses x ring, as operator benchmarks time
// it: no weights, no MLP.
//
//   chunk(share) = attention_time of q rows against q rows, times share
//   plain        = 4 all-to-alls (Q, K, V in, O out) + one call on all rows (share 1/2
//   when causal) ring         = first chunk + (R-1) * (max(chunk, shift) + merge);  merge
//   as in cost.h causal ring  : rows in order: the last rank computes half a chunk, then
//   R-1 whole ones. Balanced orders (zigzag,
//                  striped) give every hop half a chunk.
//   host         = h_blk + 4*h_coll with ulysses + (R-1)*h_hop; soft corner as in cost.h
#pragma once

#include "planner/cost.h"

namespace hpplan {

struct OperatorShape {
  double batch = 1;
  int heads = 1, kv_heads = 1, head_dim = 128;
  double rows = 0;  // of the whole sequence
  bool causal = false;
};

// balanced: rows are dealt so that every rank has the same share of a causal mask. Heads
// that do not divide are rounded up: the busiest rank sets the time.
CostBreakdown operator_cost(const Problem& problem, const OperatorShape& shape,
                            bool balanced, const Degrees& degrees, RingMethod method,
                            const AxisPaths& paths);

}  // namespace hpplan
