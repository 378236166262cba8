// The whole prediction of a candidate: step, breakdown, the source it rests on and its band.
#include <algorithm>

#include "planner/compute.h"
#include "planner/cost.h"

namespace hpplan {
namespace {

// Without a run of one's own: nine of ten published groups lie within this factor of the prediction. On a
// software stack that was measured on the very machine, within the second.
constexpr double kBand = 1.6;
constexpr double kCalibratedBand = 1.35;

Source weakest(Source a, Source b) { return std::max(a, b); }

Source curve_source(const FabricRates& rates, const AxisPath& path) {
  for (const CollectiveCurve& curve : rates.curves)
    if (curve.op == path.op_reference && curve.n == path.n_reference) return curve.source;
  return rates.source_tag;
}

}  // namespace

Prediction predict(const Problem& problem, const Degrees& degrees, RingMethod method, const Split& split,
                   const AxisPaths& paths) {
  Prediction prediction;
  prediction.breakdown = StepModel(problem, degrees, method, split).at(paths);
  prediction.step = prediction.breakdown.step();

  Source source = weakest(problem.device.peak_source, problem.device.gemm.source);
  source = weakest(source, problem.device.attention.source);
  source = weakest(source, problem.engine.stack.source);
  for (const Axis axis : {Axis::kCfg, Axis::kRing, Axis::kUlysses, Axis::kTp})
    if (degrees[axis] > 1)
      source = weakest(source, curve_source(problem.fabric_rates, paths[static_cast<std::size_t>(axis)]));
  prediction.source = source;
  const double band = source <= Source::kPublished ? kCalibratedBand : kBand;
  prediction.low = prediction.step / band;
  prediction.high = prediction.step * band;
  return prediction;
}

}  // namespace hpplan
