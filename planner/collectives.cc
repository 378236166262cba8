#include "planner/collectives.h"

#include <cmath>

namespace hpplan {
namespace {

// Start of a collective where no curve tells one.
constexpr Seconds kUnknownStart{10e-6};

const CollectiveCurve* curve_of(const FabricRates& rates, Collective op, int n) {
  for (const CollectiveCurve& curve : rates.curves)
    if (curve.op == op && curve.n == n) return &curve;
  return nullptr;
}

}  // namespace

Bytes wire_bytes(Collective op, int n, Bytes size) {
  if (n <= 1) return Bytes(0);
  switch (op) {
    case Collective::kAllReduce:
      return size * (2.0 * (n - 1) / n);
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
      return size * (static_cast<double>(n - 1) / n);
    case Collective::kShift:
      return size;
  }
  return size;
}

Seconds collective_time(const FabricRates& rates, Collective op, int n, Bytes size, const AxisPath& path) {
  if (n <= 1) return Seconds(0);
  const Bytes wire = wire_bytes(op, n, size);
  if (const CollectiveCurve* curve = curve_of(rates, path.op_reference, path.n_reference)) {
    const Seconds moved = wire / curve->bandwidth + Seconds(curve->c * std::sqrt(wire.value));
    return curve->a + path.latency + moved * path.contention;
  }
  Seconds time = kUnknownStart + path.latency;
  if (path.bandwidth.value > 0) time += wire / path.bandwidth;
  return time;
}

}  // namespace hpplan
