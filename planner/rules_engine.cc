// What an engine cannot do: axes, ring methods, guidance branches, vendors, kernels, and
// the rank groups it builds.
#include <algorithm>

#include "planner/rules_parts.h"
#include "planner/spec/error.h"

namespace hpplan::rules {
namespace {

void check_axes(std::vector<Finding>& findings, const Problem& problem, const Degrees& d,
                RingMethod method) {
  const Engine& e = problem.engine;
  if (d.tp() > 1 && !e.tp)
    findings.push_back(error(
        "engine-tp",
        concat(e.name, " has no tensor parallelism; tp ", d.tp(), " was asked"), "tp 1"));
  if (d.tp() > 1 && d.sequence() > 1 && !e.tp_with_sequence)
    findings.push_back(
        error("engine-tp-sequence",
              concat(e.name, " takes tp or a sequence axis, not tp ", d.tp(), " with ",
                     d.ring() > 1 ? "ring " : "ulysses ",
                     d.ring() > 1 ? d.ring() : d.ulysses()),
              concat("tp ", d.product() / d.replica() / d.cfg(), " alone, or tp 1")));
  if (d.ring() > 1) {
    const bool gather = method == RingMethod::kAllGather;
    if (gather ? !e.ring_allgather : !e.ring_p2p) {
      const bool other = gather ? e.ring_p2p : e.ring_allgather;
      findings.push_back(error(
          "ring-method",
          concat(e.name,
                 gather ? " has no K/V gather" : " does not pass K/V round a ring",
                 "; ring ", d.ring(), " with method ", to_string(method), " was asked"),
          other ? concat("method ", gather ? "p2p" : "allgather") : "ring 1"));
    } else if (d.ulysses() > 1 &&
               (!e.ring_with_ulysses || (gather && !e.allgather_with_ulysses))) {
      findings.push_back(error(
          "ring-ulysses",
          concat(e.name, " takes ", gather ? "a K/V gather" : "a ring",
                 " or ulysses, not ring ", d.ring(), " with ulysses ", d.ulysses()),
          concat("ring ", d.sequence(), ", or ulysses ", d.sequence(),
                 e.ring_with_ulysses && e.ring_p2p && gather ? ", or method p2p" : "")));
    }
  }
}

// The ops of the model against what the engine's ring can do.
void check_attention(std::vector<Finding>& findings, const Problem& problem,
                     const Degrees& d) {
  const Engine& e = problem.engine;
  const ModelSpec& model = problem.model;
  const std::string fix = concat("ring 1 (ulysses ", d.sequence(), ")");
  const bool joint =
      std::any_of(model.streams.begin(), model.streams.end(),
                  [](const StreamSpec& s) { return s.kind == StreamKind::kJoint; });
  const auto packed =
      std::count_if(model.streams.begin(), model.streams.end(),
                    [](const StreamSpec& s) { return s.kind == StreamKind::kPacked; });
  if (d.ring() > 1 && joint && !e.ring_with_joint)
    findings.push_back(error(
        "attention-joint",
        concat(model.title, " has joint text-image attention, and the ring of ", e.name,
               " would count its text keys ", d.ring(), " times or not at all"),
        fix));
  if (d.ring() > 1 && model.kv_heads < model.heads && !e.ring_with_gqa)
    findings.push_back(
        error("attention-gqa",
              concat(model.title, " has ", model.kv_heads, " KV heads for ", model.heads,
                     " heads, which the ring of ", e.name, " does not expand"),
              fix));
  if (d.sequence() > 1 && packed > 1 && !e.shards_row_index)
    findings.push_back(
        error("row-index",
              concat(model.title, " picks weights by the modality of a packed row, and ",
                     e.name, " does not cut that index with the rows (", d.sequence(),
                     " sequence ranks)"),
              "sequence degree 1"));
  if (d.sequence() == 1 || e.attention_kernels.empty()) return;
  const auto kernel = std::find_if(
      e.attention_kernels.begin(), e.attention_kernels.end(),
      [&](const AttentionKernel& k) { return k.name == e.stack.attention_kernel; });
  if (kernel == e.attention_kernels.end()) return;
  std::string able;
  for (const AttentionKernel& k : e.attention_kernels)
    if (k.sequence && (k.lse || d.ring() == 1))
      able += (able.empty() ? "" : ", ") + k.name;
  if (!kernel->sequence)
    findings.push_back(error(
        "attention-backend",
        concat(
            "attention kernel ", kernel->name, " of ", e.name,
            " ignores sequence parallelism, so each shard would attend to itself alone"),
        concat("kernels that do not: ", able.empty() ? "none" : able)));
  else if (d.ring() > 1 && !kernel->lse)
    findings.push_back(error("attention-backend",
                             concat("attention kernel ", kernel->name, " of ", e.name,
                                    " returns no log-sum-exp, which ring ", d.ring(),
                                    " needs to merge blocks"),
                             concat("kernels that do: ", able.empty() ? "none" : able)));
}

void check_branches(std::vector<Finding>& findings, const Problem& problem,
                    const Degrees& d) {
  const Engine& e = problem.engine;
  const int branches = problem.workload.branches;
  const int cfg = d.cfg();
  if (cfg == 1) return;
  if (!e.cfg) {
    findings.push_back(error(
        "engine-cfg",
        concat(e.name, " does not split guidance branches; cfg ", cfg, " was asked"),
        "cfg 1"));
    return;
  }
  if (cfg > branches) {
    std::vector<int> legal;
    for (int c = 1; c <= branches && (e.cfg_max == 0 || c <= e.cfg_max); ++c)
      legal.push_back(c);
    findings.push_back(
        error("cfg-branches",
              concat("cfg ", cfg, " is more than the ", branches, " guidance branch",
                     branches == 1 ? "" : "es", " of a request, so ", cfg - branches,
                     " of every ", cfg, " ranks would have none"),
              concat("cfg ", list(legal)),
              {{"branches", std::to_string(branches)}, {"cfg", std::to_string(cfg)}}));
    return;
  }
  if (e.cfg_max > 0 && cfg > e.cfg_max) {
    findings.push_back(error("engine-cfg",
                             concat(e.name, " splits guidance over at most ", e.cfg_max,
                                    " ranks; cfg ", cfg, " was asked"),
                             concat("cfg ", e.cfg_max)));
    return;
  }
  const int rounds = (branches + cfg - 1) / cfg;
  const int enough = (branches + rounds - 1) / rounds;
  if (enough < cfg)
    findings.push_back(warning(
        "cfg-waste",
        concat(branches, " branches on cfg ", cfg, " take ", rounds,
               " forward passes, as many as on cfg ", enough),
        concat("cfg ", enough),
        {{"branches", std::to_string(branches)}, {"passes", std::to_string(rounds)}}));
}

// Ways to shrink the degrees to a product the machine has: one or more axes divided.
std::string smaller(const Degrees& d, int devices) {
  std::string text;
  int found = 0;
  const auto divisors = [devices](int n) {
    std::vector<int> all;
    for (int i = std::min(n, devices); i >= 1; --i)
      if (n % i == 0) all.push_back(i);
    return all;
  };
  for (const int cfg : divisors(d.cfg()))
    for (const int tp : divisors(d.tp()))
      for (const int ring : divisors(d.ring()))
        for (const int u : divisors(d.ulysses())) {
          const Degrees fit = Degrees::make(tp, ring, u, cfg, 1);
          if (fit.product() != devices || found == 3) continue;
          text += (found++ == 0 ? "" : ", or ") + fit.str();
        }
  return text;
}

void check_world(std::vector<Finding>& findings, const Problem& problem,
                 const Degrees& d) {
  const Topology& t = problem.topology;
  const std::int64_t product = d.product();
  if (product > t.devices()) {
    const std::string fits = smaller(d, t.devices());
    findings.push_back(error(
        "world-size",
        concat(d.str(), " needs ", product, " devices; ", t.name, " has ", t.devices()),
        fits.empty() ? concat("degrees whose product is at most ", t.devices()) : fits,
        {{"needed", std::to_string(product)}, {"devices", std::to_string(t.devices())}}));
    return;
  }
  if (!t.world_sizes.empty() && std::find(t.world_sizes.begin(), t.world_sizes.end(),
                                          product) == t.world_sizes.end())
    findings.push_back(error(
        "world-size",
        concat(d.str(), " uses ", product, " devices, and the runtime of ", t.name,
               " starts on ", list(t.world_sizes), " only"),
        concat("world sizes: ", with_nearest(t.world_sizes, static_cast<int>(product)))));
}

// The trap of groups that forget tp: consecutive ranks for ulysses and ring, so they
// share ranks with tp.
void check_own_groups(std::vector<Finding>& findings, const Problem& problem,
                      const Degrees& d) {
  const Engine& e = problem.engine;
  if (!e.sequence_groups_ignore_tp || d.tp() == 1 || d.sequence() == 1) return;
  const Axis axis = d.ulysses() > 1 ? Axis::kUlysses : Axis::kRing;
  std::vector<int> tp_group, own_group;
  for (int r = 0; r < d.tp(); ++r) tp_group.push_back(r);
  for (int r = 0; r < d[axis]; ++r) own_group.push_back(r);
  findings.push_back(
      error("engine-groups",
            concat(e.name, " builds ", to_string(axis),
                   " groups over consecutive ranks: ", groups_text({own_group}),
                   " shares ", std::min(tp_group.size(), own_group.size()),
                   " ranks with the tp group ", groups_text({tp_group}),
                   ", so the exchange would mix different heads of the same rows"),
            "tp alone, or the sequence axes alone with tp 1"));
  // Heads are tested on the whole count, which hides that a rank holds fewer.
  const int local = problem.model.heads / d.tp();
  if (e.heads_checked_globally && d.ulysses() > 1 &&
      problem.model.heads % d.ulysses() == 0 && local % d.ulysses() != 0)
    findings.push_back(warning(
        "ulysses-heads",
        concat(e.name, " accepts ", problem.model.heads, " % ", d.ulysses(),
               " = 0, but with tp ", d.tp(), " a rank holds ", local, " heads and ",
               local, " % ", d.ulysses(), " = ", local % d.ulysses()),
        "check heads / tp, not heads"));
}

}  // namespace

std::optional<Finding> refuse_size(const Problem& problem, const Degrees& degrees) {
  constexpr double kBeyond = 1 << 24;
  double product = 1;
  for (const int d : degrees.of_axis) product *= d;
  if (product <= kBeyond) return std::nullopt;
  return error("world-size",
               concat(degrees.str(), " needs ", product, " devices; ",
                      problem.topology.name, " has ", problem.topology.devices()),
               concat("degrees whose product is at most ", problem.topology.devices()));
}

std::vector<Finding> check_engine(const Problem& problem, const Degrees& degrees,
                                  RingMethod method) {
  std::vector<Finding> findings;
  const Engine& e = problem.engine;
  const auto& vendors = e.vendors;
  if (!vendors.empty() && std::find(vendors.begin(), vendors.end(),
                                    problem.topology.vendor) == vendors.end()) {
    std::string names;
    for (const std::string& v : vendors) names += (names.empty() ? "" : ", ") + v;
    findings.push_back(error("engine-vendor",
                             concat(e.name, " does not run on ", problem.topology.vendor,
                                    " devices (", problem.topology.name, ")"),
                             concat(e.name, " runs on ", names)));
  }
  check_world(findings, problem, degrees);
  check_axes(findings, problem, degrees, method);
  check_own_groups(findings, problem, degrees);
  check_attention(findings, problem, degrees);
  check_branches(findings, problem, degrees);
  const bool quantized =
      problem.workload.quant_block > 0 || bytes_of(problem.workload.dtype) < 2;
  if (problem.workload.fused_adapters && !e.fuses_adapters_sharded &&
      (degrees.tp() > 1 || quantized))
    findings.push_back(
        error("adapter-fusion",
              concat("adapters cannot be added into weights that are ",
                     degrees.tp() > 1 ? concat("cut by tp ", degrees.tp()) : "quantized",
                     " in ", e.name),
              degrees.tp() > 1 ? "tp 1, or adapters kept apart" : "adapters kept apart"));
  return findings;
}

bool mode_excluded(const Degrees& degrees, const HeadMode& mode) {
  return (degrees.ring() > 1 && !mode.with_ring) ||
         (degrees.ulysses() > 1 && !mode.with_ulysses);
}

std::optional<Finding> refuse_mode(const Problem& problem, const Degrees& degrees,
                                   const HeadMode& mode) {
  if (!mode_excluded(degrees, mode)) return std::nullopt;
  const std::string name = name_of(problem.engine, mode);
  if (degrees.ring() > 1 && !mode.with_ring)
    return error("mode-ring",
                 concat(name, " needs ring 1; ring ", degrees.ring(), " was asked"),
                 "ring 1");
  return error(
      "mode-ulysses",
      concat(name, " needs ulysses 1; ulysses ", degrees.ulysses(), " was asked"),
      "ulysses 1");
}

std::vector<Finding> check_expressible(const Problem& problem, const Mesh& mesh) {
  const std::optional<Mesh> own = engine_mesh(problem, mesh.degrees());
  if (!own) return {};
  std::string order;
  for (const Axis axis : problem.engine.rank_order)
    order += (order.empty() ? "" : ", ") + std::string(to_string(axis));
  for (auto axis = kAxes.rbegin(); axis != kAxes.rend(); ++axis) {
    if (mesh.degrees()[*axis] == 1) continue;
    auto theirs = own->groups(*axis);
    auto ours = mesh.groups(*axis);
    std::sort(theirs.begin(), theirs.end());
    std::sort(ours.begin(), ours.end());
    if (theirs == ours) continue;
    const bool same_members = [&] {
      auto a = theirs, b = ours;
      for (auto& g : a) std::sort(g.begin(), g.end());
      for (auto& g : b) std::sort(g.begin(), g.end());
      std::sort(a.begin(), a.end());
      std::sort(b.begin(), b.end());
      return a == b;
    }();
    const std::string message =
        concat(problem.engine.name, " takes no mesh: for ", mesh.degrees().str(),
               " it builds the ", to_string(*axis), " groups ", groups_text(theirs),
               "; this mesh has ", groups_text(ours),
               same_members ? " (the same members in another order)" : "");
    return {error("rank-order", message,
                  concat("its own rank order, fastest first: ", order),
                  {{"axis", std::string(to_string(*axis))},
                   {"engine_groups", groups_text(theirs)}})};
  }
  return {};
}

}  // namespace hpplan::rules
