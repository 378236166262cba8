// The whole prediction of a candidate: step, breakdown, the source it rests on and its band.
#include <algorithm>

#include "planner/compute.h"
#include "planner/cost.h"

namespace hpplan {
namespace {

// How far predictions were from published runs, by class of fabric: of ten published groups, nine have their mean
// error within the factor (31 groups on switches, 23 on PCIe, 4 on tori: all of these). `hpplan validate` prints what
// they rest on, and how many rows lie inside. Where every rate was measured on the very device, the last holds.
constexpr double kSwitchBand = 2.0;
constexpr double kPcieBand = 1.9;
constexpr double kTorusBand = 3.0;
constexpr double kMeasuredBand = 1.35;

double band_of(const Topology& topology, Source source) {
  if (source == Source::kMeasured) return kMeasuredBand;
  if (topology.group_rule != GroupRule::kAny) return kTorusBand;
  for (const Level& level : topology.levels)
    if (level.kind == LinkKind::kPcie) return kPcieBand;
  return kSwitchBand;
}

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
  const double band = band_of(problem.topology, source);
  prediction.low = prediction.step / band;
  prediction.high = prediction.step * band;
  return prediction;
}

}  // namespace hpplan
