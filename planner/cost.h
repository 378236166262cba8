// Predicted seconds of one denoise step. What degrees alone decide is computed once a factorization; what
// the placement decides (contention of each axis) is put in per placement, so that half a million placements
// cost half a million small sums.
#pragma once

#include <array>

#include "planner/collectives.h"
#include "planner/problem.h"
#include "planner/spec/plan.h"

namespace hpplan {

// By axis; the tp path is that of its all-reduce, ulysses of its all-to-all, ring of its shift or gather,
// cfg of its shift.
using AxisPaths = std::array<AxisPath, kAxisCount>;

class StepModel {
 public:
  StepModel(const Problem& problem, const Degrees& degrees, RingMethod method, const Split& split);

  CostBreakdown at(const AxisPaths& paths) const;

 private:
  // What at() needs; see cost.cc for the formulas.
  struct Exchange {
    Collective op = Collective::kAllReduce;
    int n = 1;
    double count = 0;  // a step
    Bytes size;        // of one
  };
  const FabricRates* fabric_ = nullptr;
  CostBreakdown base_;               // device time without communication
  std::vector<Exchange> tp_, ulysses_, cfg_;
  Exchange ring_;                    // one hop, or one gather
  Seconds ring_chunk_, ring_merge_;  // attention of one K/V block, merge of one hop
  int ring_degree_ = 1;
  Seconds host_;
};

// The whole prediction with band and source.
Prediction predict(const Problem& problem, const Degrees& degrees, RingMethod method, const Split& split,
                   const AxisPaths& paths);

// The paths of an explicit mesh (a hand-written layout, an engine's fixed order).
AxisPaths paths_of(const Problem& problem, const Mesh& mesh, RingMethod method);

}  // namespace hpplan
