#include "planner/spec/plan_document.h"

#include <algorithm>
#include <map>

#include "planner/spec/error.h"
#include "planner/spec/hash.h"
#include "planner/spec/plan_yaml.h"
#include "planner/spec/quantity.h"

namespace hpplan {
namespace {

// Predicted numbers carry no more than six digits: further ones say nothing and differ between compilers.
double rounded(double value) { return value == 0 ? 0 : std::stod(format_rounded(value, 6)); }
double seconds(Seconds s) { return rounded(s.value); }
std::int64_t bytes(Bytes b) { return static_cast<std::int64_t>(b.value); }

// The part of a placement that belongs to an axis: other digits shown as dots.
std::string placement_of(const std::string& placement, char letter) {
  std::string text;
  bool in_digits = false, used = false;
  for (const char c : placement) {
    if (c == ' ') in_digits = false;
    const bool mine = in_digits && c == letter;
    used |= mine;
    text += in_digits && !mine ? '.' : c;
    if (c == ':') in_digits = true;
  }
  return used ? text : "";
}

Document heads_text(const Split& split, int ulysses) {
  if (ulysses == 1 || split.padded_heads == split.local_heads) return "exact";
  return concat(split.mode.policy == HeadPolicy::kUneven ? "uneven " : "padded ", split.local_heads, " -> ",
                split.padded_heads);
}

Document nested(const Mesh& mesh, std::size_t dim, std::size_t& at) {
  Document list = Document::array();
  if (dim == mesh.dims().size()) return mesh.ranks()[at++];
  for (int i = 0; i < mesh.degrees()[mesh.dims()[dim]]; ++i) list.push_back(nested(mesh, dim + 1, at));
  return list;
}

Document short_candidate(const Candidate& c) {
  Document d;
  d["axes"] = axes_document(c);
  d["devices"] = c.mesh.size();
  d["predicted"] = prediction_document(c.predicted);
  d["memory"] = memory_document(c.memory);
  if (c.measured) d["measured"] = measurement_document(*c.measured);
  Document warnings = Document::array();
  for (const Finding& f : c.warnings) warnings.push_back(finding_document(f));
  if (!warnings.empty()) d["warnings"] = warnings;
  return d;
}

Document rejection_document(const Rejection& r) {
  Document d;
  d["tp"] = r.degrees.tp();
  d["ring"] = r.degrees.ring();
  d["ulysses"] = r.degrees.ulysses();
  if (r.degrees.cfg() > 1) d["cfg"] = r.degrees.cfg();
  if (r.degrees.replica() > 1) d["replica"] = r.degrees.replica();
  if (r.degrees.ring() > 1) d["method"] = std::string(to_string(r.ring_method));
  d["code"] = r.finding.code;
  d["message"] = r.finding.message;
  d["suggestion"] = r.finding.suggestion;
  d["placements"] = r.placements;
  return d;
}

// The first 16 digits name a section well enough.
std::string digest(const Document& section) { return sha256(canonical(section)).substr(0, 7 + 16); }

Document launch_document(const Plan& plan) {
  const int ranks = plan.chosen.mesh.size();
  const int per_node = plan.topology.devices_per_os_node > 0 ? std::min(plan.topology.devices_per_os_node, ranks)
                                                             : ranks;
  const int nodes = (ranks + per_node - 1) / per_node;
  Document d;
  if (nodes == 1) d["local"] = concat("hprun plan.yaml --nproc ", ranks);
  d["torchrun"] = concat("torchrun --no-python --nnodes ", nodes, " --nproc-per-node ", per_node,
                         nodes > 1 ? " --rdzv-backend c10d --rdzv-endpoint $HEAD_NODE:29400" : "", " hprun plan.yaml");
  d["srun"] = concat("srun --nodes ", nodes, " --ntasks ", ranks, " --ntasks-per-node ", per_node, " hprun plan.yaml");
  return d;
}

}  // namespace

Document axes_document(const Candidate& c) {
  const Degrees& degrees = c.mesh.degrees();
  Document axes;
  const auto add = [&](Axis axis, char letter) -> Document& {
    Document& a = axes[std::string(to_string(axis))];
    a["degree"] = degrees[axis];
    const std::string placement = placement_of(c.placement, letter);
    if (!placement.empty()) a["placement"] = placement;
    return a;
  };
  if (degrees.replica() > 1) add(Axis::kReplica, 'D');
  if (degrees.cfg() > 1) add(Axis::kCfg, 'C');
  add(Axis::kTp, 'T');
  add(Axis::kRing, 'R')["method"] = std::string(to_string(c.ring_method));
  add(Axis::kUlysses, 'U')["heads"] = heads_text(c.split, degrees.ulysses());
  return axes;
}

Document mesh_document(const Mesh& mesh) {
  Document d;
  // Axes of degree 1 outside the three that every plan names are left out.
  std::vector<Axis> dims;
  std::vector<int> order;
  for (const Axis axis : mesh.dims())
    if (mesh.degrees()[axis] > 1 || axis == Axis::kTp || axis == Axis::kRing || axis == Axis::kUlysses)
      dims.push_back(axis);
  const Mesh shown(mesh.degrees(), dims, mesh.ranks(), mesh.devices());
  for (const Axis axis : dims) {
    d["dims"].push_back(std::string(to_string(axis)));
    d["shape"].push_back(mesh.degrees()[axis]);
  }
  std::size_t at = 0;
  // The leading axes that Mesh added itself have degree 1: step into them.
  Document ranks = nested(shown, shown.dims().size() - dims.size(), at);
  d["ranks"] = std::move(ranks);
  d["devices"] = mesh.devices();
  // By rank: no reader has to work a coordinate out.
  for (const Axis axis : dims) {
    std::vector<int> of_rank(static_cast<std::size_t>(mesh.size()));
    for (int r = 0; r < mesh.size(); ++r) of_rank[static_cast<std::size_t>(r)] = mesh.coordinate(r, axis);
    d["coordinates"][std::string(to_string(axis))] = of_rank;
    d["groups"][std::string(to_string(axis))] = digest(Document(mesh.groups(axis)));
  }
  return d;
}

Document prediction_document(const Prediction& p) {
  Document d;
  d["step_s"] = seconds(p.step);
  d["band_s"] = {seconds(p.low), seconds(p.high)};
  d["source"] = std::string(to_string(p.source));
  const CostBreakdown& b = p.breakdown;
  d["breakdown"] = {{"compute", seconds(b.compute)},           {"attention", seconds(b.attention)},
                    {"tp", seconds(b.tp)},                     {"ulysses", seconds(b.ulysses)},
                    {"ring_exposed", seconds(b.ring_exposed)}, {"ring_hidden", seconds(b.ring_hidden)},
                    {"cfg", seconds(b.cfg)},                   {"overhead", seconds(b.overhead)}};
  if (!p.notes.empty()) d["notes"] = p.notes;
  return d;
}

Document memory_document(const MemoryEstimate& m) {
  Document d;
  d["limit_bytes"] = bytes(m.limit);
  d["peak_bytes"] = bytes(m.peak());
  d["stages"] = {
      {"load", bytes(m.load)}, {"text", bytes(m.text)}, {"denoise", bytes(m.denoise)}, {"decode", bytes(m.decode)}};
  for (const auto& [name, part] : m.parts) d["parts"][name] = bytes(part);
  d["host_bytes"] = bytes(m.host);
  return d;
}

Document finding_document(const Finding& f) {
  Document d;
  d["level"] = f.severity == Severity::kError ? "error" : "warning";
  d["code"] = f.code;
  d["message"] = f.message;
  d["suggestion"] = f.suggestion;
  if (!f.details.empty()) d["details"] = f.details;
  return d;
}

Document workload_document(const Workload& w, const Rows& rows) {
  Document d;
  d["rows"] = rows.total();
  for (const StreamRows& s : rows.streams) {
    constexpr const char* kKinds[] = {"packed", "joint", "context"};
    d["streams"].push_back({{"name", s.name}, {"kind", kKinds[static_cast<int>(s.kind)]}, {"rows", s.rows}});
  }
  d["height"] = w.height;
  d["width"] = w.width;
  d["frames"] = w.frames;
  d["text_rows"] = w.text_rows;
  d["reference_rows"] = w.reference_rows;
  d["batch"] = w.batch;
  d["branches"] = w.branches;
  d["dtype"] = std::string(to_string(w.dtype));
  d["quant_block"] = w.quant_block;
  d["steps"] = w.steps;
  if (w.seq_len) d["seq_len"] = *w.seq_len;
  return d;
}

Document plan_core(const Plan& plan) {
  Document d;
  d["hpplan"] = Plan::kSchema;
  d["model"] = model_document(plan.model);
  d["model"]["hash"] = plan.model_hash;
  d["workload"] = workload_document(plan.workload, plan.rows);
  d["workload"]["hash"] = plan.workload_hash;
  Document& topology = d["topology"];
  topology["name"] = plan.topology.name;
  topology["devices"] = plan.topology.devices();
  topology["used"] = plan.chosen.mesh.size();
  topology["device"] = plan.topology.device;
  topology["vendor"] = plan.topology.vendor;
  topology["devices_per_os_node"] = plan.topology.devices_per_os_node;
  topology["hash"] = plan.topology_hash;
  d["engine"] = plan.engine.name;
  if (plan.fabric_rules != FabricRules::kNotApplicable) d["fabric_rules"] = std::string(to_string(plan.fabric_rules));
  d["axes"] = axes_document(plan.chosen);
  const Split& split = plan.chosen.split;
  d["split"] = {{"heads", std::string(to_string(split.mode.policy))},
                {"rows", std::string(to_string(split.mode.rows))},
                {"flag", split.mode.flag},
                {"local_heads", split.local_heads},
                {"padded_heads", split.padded_heads},
                {"busiest_heads", split.busiest_heads},
                {"total_rows", split.rows},
                {"padded_rows", split.padded_rows},
                {"busiest_rows", split.busiest_rows}};
  d["mesh"] = mesh_document(plan.chosen.mesh);
  if (!plan.hosts.empty()) d["mesh"]["hosts"] = plan.hosts;
  d["predicted"] = prediction_document(plan.chosen.predicted);
  d["memory"] = memory_document(plan.chosen.memory);
  d["launch"] = launch_document(plan);
  return d;
}

std::string plan_hash(const Plan& plan) { return sha256(canonical(plan_core(plan))); }

Document plan_document(const Plan& plan, bool explain) {
  const Document core = plan_core(plan);
  Document d = core;
  d.erase("launch");
  d["measured"] = plan.chosen.measured ? measurement_document(*plan.chosen.measured) : Document(nullptr);
  Document warnings = Document::array();
  for (const Finding& f : plan.chosen.warnings) warnings.push_back(finding_document(f));
  if (!warnings.empty()) d["warnings"] = warnings;
  d["runners_up"] = Document::array();
  for (const Candidate& c : plan.runners_up) d["runners_up"].push_back(short_candidate(c));
  d["placements_examined"] = plan.placements_examined;
  d["rejections"] = Document::array();
  if (explain) {
    for (const Rejection& r : plan.rejections) d["rejections"].push_back(rejection_document(r));
    d["candidates"] = Document::array();
    for (const Candidate& c : plan.candidates) d["candidates"].push_back(short_candidate(c));
  } else {
    std::map<std::string, std::pair<int, const Rejection*>> by_code;
    for (const Rejection& r : plan.rejections) {
      auto& [count, example] = by_code[r.finding.code];
      count += r.placements;
      if (example == nullptr) example = &r;
    }
    for (const auto& [code, counted] : by_code)
      d["rejections"].push_back({{"code", code},
                                 {"count", counted.first},
                                 {"example", counted.second->degrees.str() + ": " + counted.second->finding.message},
                                 {"suggestion", counted.second->finding.suggestion}});
  }
  if (!plan.notes.empty()) d["notes"] = plan.notes;
  d["launch"] = core["launch"];
  for (const auto& [key, section] : core.items()) d["sections"][key] = digest(section);
  d["hash"] = sha256(canonical(core));
  return d;
}

std::string plan_to_yaml(const Plan& plan, bool explain) { return to_yaml(plan_document(plan, explain)); }
std::string plan_to_json(const Plan& plan, bool explain) { return to_json(plan_document(plan, explain)); }

}  // namespace hpplan
