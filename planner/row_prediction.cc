#include "planner/row_prediction.h"

#include <algorithm>

#include "planner/cost.h"
#include "planner/memory.h"
#include "planner/rules.h"

namespace hpplan {
namespace {

Split split_for(const Problem& p, const Degrees& d, RingMethod method) {
  if (const auto split = split_of(p, d, method)) return *split;
  Split s;
  const auto ceil_div = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  s.mode.policy = HeadPolicy::kUneven;
  s.mode.rows = RowPolicy::kUneven;
  s.local_heads = static_cast<int>(ceil_div(p.model.heads, d.tp()));
  s.busiest_heads = static_cast<int>(ceil_div(s.local_heads, d.ulysses()));
  s.padded_heads = s.busiest_heads * d.ulysses();
  s.rows = p.rows.total();
  s.busiest_rows = ceil_div(s.rows, d.sequence());
  s.padded_rows = s.busiest_rows * d.sequence();
  return s;
}

Seconds exposed_gather(const Problem& p, int shards, const CostBreakdown& cost) {
  if (shards <= 1 || shards > p.topology.devices()) return Seconds(0);
  std::vector<int> group(static_cast<std::size_t>(shards));
  for (int i = 0; i < shards; ++i) group[static_cast<std::size_t>(i)] = i;
  const AxisPath path = p.fabric->path(Collective::kAllGather, {group});
  Seconds gather;
  for (const BlockSpec& block : p.model.blocks) {
    const Bytes weights(static_cast<double>(p.model.block_parameters(block).total()) *
                        bytes_of(p.workload.dtype));
    gather += block.count * collective_time(p.fabric_rates, Collective::kAllGather,
                                            shards, weights, path);
  }
  return std::max(Seconds(0), gather - cost.compute - cost.attention);
}

}  // namespace

Prediction predict_row(const MatchedRow& row) {
  const Problem& p = *row.problem;
  auto mesh = engine_mesh(p, row.degrees);
  if (!mesh) mesh = Mesh::from_order(row.degrees, p.engine.rank_order);
  const AxisPaths paths = paths_of(p, *mesh, row.method);
  if (row.op) {
    Prediction prediction;
    prediction.breakdown =
        operator_cost(p, *row.op, row.balanced, row.degrees, row.method, paths);
    prediction.step = prediction.breakdown.step();
    return prediction;
  }
  Prediction prediction =
      predict(p, row.degrees, row.method, split_for(p, row.degrees, row.method), paths);
  const Seconds exposed = exposed_gather(p, row.weight_shards, prediction.breakdown);
  prediction.step += exposed;
  prediction.low += exposed;
  prediction.high += exposed;
  return prediction;
}

MemoryEstimate memory_of_row(const MatchedRow& row) {
  const Problem& p = *row.problem;
  MemoryEstimate memory =
      estimate_memory(p, row.degrees, row.method, split_for(p, row.degrees, row.method));
  if (row.weight_shards <= 1) return memory;
  for (const auto& [name, bytes] : memory.parts)
    if (name == "weights" || name == "adaln")
      for (Bytes* stage : {&memory.load, &memory.text, &memory.denoise, &memory.decode})
        *stage -= bytes * (1 - 1.0 / row.weight_shards);
  return memory;
}

}  // namespace hpplan
