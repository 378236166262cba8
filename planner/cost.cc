#include "planner/cost.h"

#include <algorithm>
#include <cmath>

#include "planner/compute.h"
#include "planner/rules.h"
#include "planner/spec/error.h"

namespace hpplan {
namespace {

double ceil_div(double a, double b) { return std::ceil(a / b); }

// Rows of the request by what they are to a dual-stream block, and the share of each that a rank holds.
struct RankRows {
  double main = 0;     // packed and image-like joint rows
  double text = 0;     // joint text rows
  double context = 0;  // replicated keys of cross-attention
};

RankRows rank_rows(const Problem& p, const Split& split) {
  double text = 0, main = 0;
  for (const StreamRows& s : p.rows.streams) {
    if (s.kind == StreamKind::kContext) continue;
    (s.kind == StreamKind::kJoint && s.name == "text" ? text : main) += static_cast<double>(s.rows);
  }
  RankRows rows;
  rows.context = static_cast<double>(p.rows.of(StreamKind::kContext));
  const double total = std::max(1.0, text + main);
  rows.text = static_cast<double>(split.busiest_rows) * text / total;
  rows.main = static_cast<double>(split.busiest_rows) - rows.text;
  return rows;
}

}  // namespace

StepModel::StepModel(const Problem& p, const Degrees& degrees, RingMethod method, const Split& split)
    : fabric_(&p.fabric_rates), contention_(p.ablation.contention) {
  const ModelSpec& model = p.model;
  const StackRates& stack = p.engine.stack;
  const DeviceRates& device = p.device;
  const DType dtype = p.workload.dtype;
  const double e = dtype == DType::kF32 ? 4 : 2;
  const double T = degrees.tp(), R = degrees.ring(), U = degrees.ulysses();
  const double D = static_cast<double>(model.hidden), d = model.head_dim;
  const double A = static_cast<double>(model.attention_width()) / T;
  const double K = std::max(static_cast<double>(model.kv_width()) / T, d);  // a replicated KV head is whole
  const bool fa2 = stack.attention_kernel == "fa2";

  // Guidance branches on a rank run one after the other or as a larger batch.
  const double branches = ceil_div(p.workload.branches, degrees.cfg());
  const double passes = stack.branches_in_sequence ? branches : 1;
  const double batch = p.workload.batch * (stack.branches_in_sequence ? 1 : branches);

  const RankRows rows = rank_rows(p, split);
  const double local = static_cast<double>(split.busiest_rows);
  const double m = batch * local;

  // Heads after the exchange. Padding off: as if heads could be cut into fractions.
  const double heads = p.ablation.head_padding ? split.busiest_heads : model.heads / T / U;
  const double sent_heads = p.ablation.head_padding ? std::max(heads * U, model.heads / T) : model.heads / T;
  const double kv_share = static_cast<double>(model.kv_heads) / model.heads;
  const double kv_heads = std::max(heads * kv_share, 1.0);
  const double sent_kv = std::max(sent_heads * kv_share, U);

  // Rows a ring chunk holds once ulysses has brought its shards together.
  const double q = std::min(local * U, static_cast<double>(split.padded_rows));
  const double all_rows = std::min(local * U * R, static_cast<double>(split.padded_rows));

  double collectives = 0, hops = 0;
  for (const BlockSpec& block : model.blocks) {
    const double F = static_cast<double>(block.mlp_width) / T;
    const double gate = block.mlp_gated ? 2 : 1;
    const double count = block.count * passes;

    // One stream's projections and MLP.
    const auto gemms = [&](double n, double hidden, double mlp) {
      if (block.parallel_mlp)
        return gemm_time(device, dtype, n, A + 2 * K + mlp * gate, hidden) +
               gemm_time(device, dtype, n, hidden, A + mlp);
      return gemm_time(device, dtype, n, A + 2 * K, hidden) + gemm_time(device, dtype, n, hidden, A) +
             gemm_time(device, dtype, n, mlp * gate, hidden) + gemm_time(device, dtype, n, hidden, mlp);
    };
    const double text_D = block.text_hidden > 0 ? static_cast<double>(block.text_hidden) : D;
    const double text_F =
        block.text_mlp_width > 0 ? static_cast<double>(block.text_mlp_width) / T : F;
    Seconds compute;
    double wide_rows = m;  // rows of width D in the elementwise passes
    if (block.dual_stream) {
      compute += gemms(batch * rows.main, D, F) + gemms(batch * rows.text, text_D, text_F);
      wide_rows = batch * (rows.main + rows.text * text_D / D);
    } else {
      compute += gemms(m, D, F);
    }
    if (block.cross_attention) {
      const double C = model.context_width > 0 ? static_cast<double>(model.context_width) : D;
      // Keys of the context are replicated: every rank projects them and nothing is exchanged.
      compute += gemm_time(device, dtype, m, A, D) + gemm_time(device, dtype, batch * rows.context, 2 * K, C) +
                 gemm_time(device, dtype, m, D, A);
      attention_ += count * attention_time(device, dtype, fa2, batch, model.heads / T, model.head_dim, local,
                                           rows.context);
    }
    if (p.ablation.elementwise) {
      const double passes_bytes = (stack.passes_d * wide_rows * D + stack.passes_f * m * F * gate +
                                   stack.passes_a * m * A) * e;
      const double adaln = static_cast<double>(model.block_parameters(block).adaln) * bytes_of(dtype) /
                           (p.engine.adaln_divided ? T : 1);
      compute += memory_time(device, passes_bytes + adaln);
    }
    compute_ += count * compute;

    if (T > 1) {
      const int tp = degrees.tp();
      const double reduces = block.parallel_mlp ? 1 : 2;
      if (block.dual_stream) {
        tp_.push_back({Collective::kAllReduce, tp, reduces * count, Bytes(batch * rows.main * D * e)});
        tp_.push_back({Collective::kAllReduce, tp, reduces * count, Bytes(batch * rows.text * text_D * e)});
        collectives += 2 * reduces * count;
      } else {
        const double all = reduces + (block.cross_attention ? 1 : 0);
        tp_.push_back({Collective::kAllReduce, tp, all * count, Bytes(m * D * e)});
        collectives += all * count;
      }
      if (model.qk_norm == QkNorm::kFull) {
        // The sums of squares of q and k of every row, in fp32, in one reduce.
        tp_.push_back({Collective::kAllReduce, tp, count, Bytes(m * 2 * 4)});
        collectives += count;
      }
    }

    if (U > 1) {
      const double row_bytes = batch * local * d * e;
      const auto exchange = [&](double times, double heads_sent) {
        ulysses_.push_back({Collective::kAllToAll, degrees.ulysses(), times * count, Bytes(row_bytes * heads_sent)});
        collectives += times * count;
      };
      if (stack.ulysses_fused) {
        exchange(1, sent_heads + 2 * sent_kv);
        exchange(1, sent_heads);
      } else {
        exchange(2, sent_heads);
        exchange(2, sent_kv);
      }
      packing_ += count * memory_time(device, stack.passes_ulysses_pack * m * A * e);
    }

    if (R > 1 && method == RingMethod::kP2p) {
      Ring ring;
      ring.count = count;
      ring.degree = degrees.ring();
      ring.shift = Bytes(2 * batch * q * kv_heads * d * e);
      ring.chunk = attention_time(device, dtype, fa2, batch, heads, model.head_dim, q, q);
      if (p.ablation.ring_merge)
        ring.merge = memory_time(device, stack.passes_ring_merge * batch * q * heads * d * 4);
      attention_ += count * R * ring.chunk;
      ring_.push_back(ring);
      hops += (R - 1) * count;
    } else {
      attention_ += count * attention_time(device, dtype, fa2, batch, heads, model.head_dim, q, all_rows);
      if (R > 1 && p.engine.gather_in_blocks) {
        // The blocks' own starts and wave losses, and a merge after each.
        const Seconds chunk = attention_time(device, dtype, fa2, batch, heads, model.head_dim, q, q);
        attention_ += count * (R * chunk - attention_time(device, dtype, fa2, batch, heads, model.head_dim, q, all_rows));
        if (p.ablation.ring_merge)
          gather_merge_ += count * (R - 1) * memory_time(device, stack.passes_ring_merge * batch * q * heads * d * 4);
        hops += (R - 1) * count;
      }
      if (R > 1) {
        gather_.push_back({Collective::kAllGather, degrees.ring(), count,
                           Bytes(2 * batch * all_rows * kv_heads * d * e)});
        collectives += count;
      }
    }
  }
  if (degrees.cfg() > 1) {
    // The noise predictions of the branches: a latent row is far narrower than D (64 channels of fp32).
    cfg_.push_back({Collective::kAllGather, degrees.cfg(), 1, Bytes(degrees.cfg() * m * 64 * 4)});
    collectives += 1;
  }
  if (p.ablation.host_dispatch)
    host_ = stack.host_per_block * (model.layers() * passes) + stack.host_per_collective * collectives +
            stack.host_per_hop * hops;
}

Seconds StepModel::time_of(const std::vector<Exchange>& exchanges, const AxisPath& path) const {
  AxisPath used = path;
  if (!contention_) used.contention = std::min(used.contention, 1.0);
  Seconds time;
  for (const Exchange& x : exchanges) time += x.count * collective_time(*fabric_, x.op, x.n, x.size, used);
  return time;
}

CostBreakdown StepModel::at(const AxisPaths& paths) const {
  const auto path = [&](Axis axis) -> const AxisPath& { return paths[static_cast<std::size_t>(axis)]; };
  CostBreakdown cost;
  cost.compute = compute_;
  cost.attention = attention_;
  cost.tp = time_of(tp_, path(Axis::kTp));
  cost.ulysses = time_of(ulysses_, path(Axis::kUlysses)) + packing_;
  cost.ring_exposed = time_of(gather_, path(Axis::kRing)) + gather_merge_;
  AxisPath ring_path = path(Axis::kRing);
  if (!contention_) ring_path.contention = std::min(ring_path.contention, 1.0);
  for (const Ring& ring : ring_) {
    const Seconds shift = collective_time(*fabric_, Collective::kShift, ring.degree, ring.shift, ring_path);
    const double hops = ring.count * (ring.degree - 1);
    cost.ring_exposed += hops * (std::max(shift - ring.chunk, Seconds(0)) + ring.merge);
    cost.ring_hidden += hops * std::min(shift, ring.chunk);
  }
  cost.cfg = time_of(cfg_, path(Axis::kCfg));
  const double on_device = cost.step().value, on_host = host_.value;
  if (on_host > 0)
    cost.overhead = Seconds(std::pow(std::pow(on_device, 4) + std::pow(on_host, 4), 0.25) - on_device);
  return cost;
}

AxisPaths paths_of(const Problem& problem, const Mesh& mesh, RingMethod method) {
  HP_CHECK(problem.fabric != nullptr, problem.topology.name);
  std::vector<int> index(static_cast<std::size_t>(mesh.size()));
  for (int rank = 0; rank < mesh.size(); ++rank) {
    const int id = mesh.devices()[static_cast<std::size_t>(rank)];
    const auto& ids = problem.topology.device_ids;
    const auto at = std::find(ids.begin(), ids.end(), id);
    index[static_cast<std::size_t>(rank)] = ids.empty() ? id : static_cast<int>(at - ids.begin());
  }
  AxisPaths paths;
  for (const Axis axis : kAxes) {
    const std::vector<Collective> ops = collectives_of(axis, method);
    if (mesh.degrees()[axis] == 1 || ops.empty()) continue;
    auto groups = mesh.groups(axis);
    for (auto& group : groups)
      for (int& member : group) member = index[static_cast<std::size_t>(member)];
    paths[static_cast<std::size_t>(axis)] = problem.fabric->path(ops.front(), groups);
  }
  return paths;
}

}  // namespace hpplan
