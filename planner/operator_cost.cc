#include "planner/operator_cost.h"

#include <algorithm>
#include <cmath>

#include "planner/compute.h"

namespace hpplan {

CostBreakdown operator_cost(const Problem& p, const OperatorShape& shape, bool balanced,
                            const Degrees& degrees, RingMethod method,
                            const AxisPaths& paths) {
  const StackRates& stack = p.engine.stack;
  const DType dtype = p.workload.dtype;
  const double e = dtype == DType::kF32 ? 4 : 2;
  const double R = degrees.ring(), U = degrees.ulysses(), d = shape.head_dim;
  const bool fa2 = stack.attention_kernel == "fa2";
  const auto path = [&](Axis axis) {
    AxisPath used = paths[static_cast<std::size_t>(axis)];
    if (!p.ablation.contention) used.contention = std::min(used.contention, 1.0);
    return used;
  };

  const double heads =
      p.ablation.head_padding ? std::ceil(shape.heads / U) : shape.heads / U;
  const double kv_heads = std::max(1.0, heads * shape.kv_heads / shape.heads);
  const double q = shape.rows / R, local = q / U;
  const auto attention = [&](double kv) {
    return attention_time(p.device, dtype, fa2, shape.batch, heads, shape.head_dim, q,
                          kv);
  };
  const double half = shape.causal ? 0.5 : 1;

  CostBreakdown cost;
  double host = stack.host_per_block.value;
  if (U > 1) {
    const double row_bytes = shape.batch * local * d * e;
    const AxisPath& used = path(Axis::kUlysses);
    const auto exchange = [&](double n) {
      return collective_time(p.fabric_rates, Collective::kAllToAll, degrees.ulysses(),
                             Bytes(row_bytes * n), used);
    };
    cost.ulysses = 2 * exchange(heads * U) + 2 * exchange(kv_heads * U);
    if (p.ablation.elementwise)
      cost.ulysses += memory_time(p.device, stack.passes_ulysses_pack * shape.batch *
                                                local * shape.heads * d * e);
    host += 4 * stack.host_per_collective.value;
  }
  if (R > 1 && method == RingMethod::kP2p) {
    const Seconds whole = attention(q);
    const Seconds hop = shape.causal && balanced ? whole * 0.5 : whole;
    const Seconds first = whole * half;
    const Seconds shift =
        collective_time(p.fabric_rates, Collective::kShift, degrees.ring(),
                        Bytes(2 * shape.batch * q * kv_heads * d * e), path(Axis::kRing));
    Seconds merge;
    if (p.ablation.ring_merge)
      merge = memory_time(p.device,
                          stack.passes_ring_merge * shape.batch * q * heads * d * 4);
    cost.attention = first + hop * (R - 1);
    cost.ring_exposed = (std::max(shift - hop, Seconds(0)) + merge) * (R - 1);
    cost.ring_hidden = std::min(shift, hop) * (R - 1);
    host += (R - 1) * stack.host_per_hop.value;
  } else {
    cost.attention = attention(shape.rows) * half;
    if (R > 1) {
      cost.ring_exposed = collective_time(
          p.fabric_rates, Collective::kAllGather, degrees.ring(),
          Bytes(2 * shape.batch * shape.rows * kv_heads * d * e), path(Axis::kRing));
      host += stack.host_per_collective.value;
    }
  }
  const double device = cost.step().value;
  if (p.ablation.host_dispatch && host > 0)
    cost.overhead =
        Seconds(std::pow(std::pow(device, 4) + std::pow(host, 4), 0.25) - device);
  return cost;
}

}  // namespace hpplan
