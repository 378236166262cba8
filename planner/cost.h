// Predicted seconds of one denoise step. What degrees alone decide is computed once a factorization; what
// the placement decides (contention of each axis) is put in per placement, so that half a million placements
// cost half a million small sums.
//
// Symbols: D hidden, A = H*d, K = Hkv*d, F MLP width, T tp, R ring, U ulysses, m rows of a rank (batch and
// branches included), S rows of the request, e bytes of an activation.
//
//   step      = (device^4 + host^4)^(1/4)          a max() whose corner is soft, so host-bound meshes keep an order
//   device    = GEMMs + elementwise + attention + tp + ulysses + ring + cfg
//   elementwise = (pD*m*D + pF*m*(F/T)*(2 if gated) + pA*m*(A/T)) * e / (eff*HBM) + AdaLN bytes / (eff*HBM)
//   attention = R chunks of q = S/R rows against kv = S/R rows (a gather: one call on S keys)
//   tp        = ar all-reduces of m*D*e a block: 1 with a parallel MLP, 2 plain, 3 with cross-attention;
//               a norm over all heads adds one of two floats a row
//   ulysses   = 2 all-to-alls of Q, 2 of K/V size (fused: one of Q, K and V, one of O), padded heads included, + 16*m*(A/T)*e of packing
//   ring p2p  = (R-1) * (max(chunk, shift) + merge),  merge = 10*q*(A/(T*U))*4 B of fp32 output and LSE
//   ring gather = all-gather of K and V of S rows, exposed
//   host      = blocks*h_blk*(branches one after the other) + collectives*h_coll + hops*h_hop
// Constants: DeviceRates, FabricRates and StackRates, each with its source.
#pragma once

#include <array>

#include "planner/collectives.h"
#include "planner/problem.h"
#include "planner/spec/plan.h"

namespace hpplan {

// By axis; the tp path is that of its all-reduce, ulysses of its all-to-all, ring of its shift or gather,
// cfg of its all-gather.
using AxisPaths = std::array<AxisPath, kAxisCount>;

class StepModel {
 public:
  StepModel(const Problem& problem, const Degrees& degrees, RingMethod method, const Split& split);

  CostBreakdown at(const AxisPaths& paths) const;

 private:
  // `count` equal collectives a step.
  struct Exchange {
    Collective op = Collective::kAllReduce;
    int n = 1;
    double count = 0;
    Bytes size;
  };
  Seconds time_of(const std::vector<Exchange>& exchanges, const AxisPath& path) const;

  const FabricRates* fabric_ = nullptr;
  bool contention_ = true;
  Seconds compute_;                  // GEMM and elementwise of a step
  Seconds attention_;                // all of a step, ring chunks included
  Seconds packing_;                  // around the all-to-alls
  Seconds gather_merge_;             // of an engine that gathers K/V and still attends block by block
  std::vector<Exchange> tp_, ulysses_, gather_, cfg_;
  struct Ring {                      // one p2p attention op
    double count = 0;                // a step
    int degree = 1;
    Bytes shift;                     // K and V of a chunk
    Seconds chunk, merge;
  };
  std::vector<Ring> ring_;
  Seconds host_;
};

// The whole prediction with band and source.
Prediction predict(const Problem& problem, const Degrees& degrees, RingMethod method, const Split& split,
                   const AxisPaths& paths);

// The paths of an explicit mesh (a hand-written layout, an engine's fixed order).
AxisPaths paths_of(const Problem& problem, const Mesh& mesh, RingMethod method);

}  // namespace hpplan
