// Plan files back into values, strictly, and only when they are what their hashes say.
#include <algorithm>

#include "planner/spec/document.h"
#include "planner/spec/hash.h"
#include "planner/spec/model_yaml.h"
#include "planner/spec/plan_yaml.h"
#include "planner/spec/quantity.h"
#include "planner/spec/yaml_reader.h"

namespace hpplan {
namespace {

constexpr int kMostRanks = 1 << 20;

// Top-level keys that no hash covers: what the choice was compared with, and what came later.
const std::vector<std::string> kOutsideHash = {"measured",  "warnings", "runners_up", "placements_examined",
                                               "rejections", "candidates", "notes",    "sections",
                                               "hash"};

void check_hash(const YamlNode& root, MapReader& top) {
  YamlNode core = root;
  core.entries.clear();
  for (const auto& entry : root.entries)
    if (std::find(kOutsideHash.begin(), kOutsideHash.end(), entry.key) == kOutsideHash.end())
      core.entries.push_back(entry);
  const std::string hash = top.text("hash");
  if (sha256(canonical(core)) == hash) return;
  // Which section is no longer what it was?
  const YamlNode& listed = top.require("sections");
  for (const YamlEntry& section : core.entries) {
    const std::string& key = section.key;
    const YamlNode& node = section.node;
    const auto it = std::find_if(listed.entries.begin(), listed.entries.end(),
                                 [&](const YamlEntry& entry) { return entry.key == key; });
    if (it == listed.entries.end() || sha256(canonical(node)).substr(0, 7 + 16) != it->node.scalar)
      throw InputError(node.where, key,
                       "was changed after the plan was made, so the plan's hash no longer fits; make the plan again "
                       "with hpplan (or check a layout of your own with hpplan check)");
  }
  for (const YamlEntry& section : listed.entries)
    if (std::none_of(core.entries.begin(), core.entries.end(),
                     [&](const YamlEntry& e) { return e.key == section.key; }))
      throw InputError(root.where, section.key, "was removed after the plan was made; make the plan again with hpplan");
  throw InputError(top.require("hash").where, "hash", "does not fit the plan; make the plan again with hpplan");
}

void flatten(const YamlNode& node, const std::vector<int>& shape, std::size_t dim, std::vector<int>& ranks) {
  if (dim == shape.size()) {
    ranks.push_back(static_cast<int>(node.integer("mesh.ranks", 0, kMostRanks)));
    return;
  }
  if (node.kind != YamlNode::Kind::kList || node.items.size() != static_cast<std::size_t>(shape[dim]))
    throw InputError(node.where, "mesh.ranks",
                     concat("expected ", shape[dim], " items at depth ", dim + 1, ", as mesh.shape says, got ",
                            node.kind == YamlNode::Kind::kList ? concat(node.items.size(), " items")
                                                               : node.kind_text()));
  for (const YamlNode& item : node.items) flatten(item, shape, dim + 1, ranks);
}

Mesh read_mesh(const YamlNode& node, std::vector<std::string>& hosts) {
  MapReader in(node, "mesh");
  const YamlNode& dims_node = in.require("dims");
  std::vector<Axis> dims;
  for (const std::string& name : dims_node.texts("mesh.dims")) {
    const auto axis = axis_from(name);
    if (!axis)
      throw InputError(dims_node.where, "mesh.dims",
                       concat("no axis is named '", name, "'",
                              did_you_mean(name, {"replica", "cfg", "ring", "ulysses", "tp"})));
    dims.push_back(*axis);
  }
  const std::vector<int> shape = in.integers("shape", 1, kMostRanks);
  if (shape.size() != dims.size())
    in.fail("shape", concat("has ", shape.size(), " numbers for ", dims.size(), " dims"));
  Degrees degrees;
  for (std::size_t i = 0; i < dims.size(); ++i) degrees[dims[i]] = shape[i];
  std::vector<int> ranks;
  flatten(in.require("ranks"), shape, 0, ranks);
  const std::vector<int> devices = in.integers("devices", 0, 1 << 30);
  hosts = in.texts_or_none("hosts");
  // Written for readers; they follow from ranks, and the hash holds them to it.
  in.find("coordinates");
  in.find("groups");
  in.finish();
  try {
    return Mesh(degrees, dims, ranks, devices);
  } catch (const InputError& e) {
    throw InputError(node.where, "", e.what());
  }
}

Workload read_workload(MapReader& in, Rows& rows) {
  Workload w;
  const std::int64_t total = in.integer("rows", 0);
  const YamlNode& streams = in.require("streams");
  for (const YamlNode& item : streams.items) {
    MapReader s(item, "workload.streams");
    StreamRows stream;
    stream.name = s.text("name");
    stream.kind = static_cast<StreamKind>(s.one_of("kind", {"packed", "joint", "context"}));
    stream.rows = s.integer("rows", 0);
    s.finish();
    rows.streams.push_back(stream);
  }
  if (rows.total() != total)
    in.fail("rows", concat("is ", total, ", but the streams have ", rows.total(), " rows of attention"));
  w.height = static_cast<int>(in.integer("height", 0, 1 << 16));
  w.width = static_cast<int>(in.integer("width", 0, 1 << 16));
  w.frames = static_cast<int>(in.integer("frames", 1, 1 << 20));
  w.text_rows = static_cast<int>(in.integer("text_rows", -1, 1 << 24));
  w.reference_rows = static_cast<int>(in.integer("reference_rows", 0, 1 << 24));
  w.batch = static_cast<int>(in.integer("batch", 1, 1 << 16));
  w.branches = static_cast<int>(in.integer("branches", 1, 16));
  const std::string dtype = in.text("dtype");
  if (!dtype_from(dtype)) in.fail("dtype", concat("no data type is named '", dtype, "'"));
  w.dtype = *dtype_from(dtype);
  w.quant_block = static_cast<int>(in.integer("quant_block", 0, 1 << 20));
  w.steps = static_cast<int>(in.integer("steps", 1, 1 << 20));
  if (in.find("seq_len")) w.seq_len = in.integer("seq_len", 1);
  return w;
}

Split read_split(const YamlNode& node) {
  MapReader in(node, "split");
  Split s;
  s.mode.policy = static_cast<HeadPolicy>(
      in.one_of("heads", {std::string(to_string(HeadPolicy::kStrict)), std::string(to_string(HeadPolicy::kPadRealHead)),
                          std::string(to_string(HeadPolicy::kPadAny)), std::string(to_string(HeadPolicy::kUneven))}));
  s.mode.rows = static_cast<RowPolicy>(
      in.one_of("rows", {std::string(to_string(RowPolicy::kStrict)), std::string(to_string(RowPolicy::kPad)),
                         std::string(to_string(RowPolicy::kUneven))}));
  s.mode.flag = in.text("flag", "");
  s.local_heads = static_cast<int>(in.integer("local_heads", 1, 1 << 20));
  s.padded_heads = static_cast<int>(in.integer("padded_heads", 1, 1 << 20));
  s.busiest_heads = static_cast<int>(in.integer("busiest_heads", 1, 1 << 20));
  s.rows = in.integer("total_rows", 1);
  s.padded_rows = in.integer("padded_rows", 1);
  s.busiest_rows = in.integer("busiest_rows", 1);
  in.finish();
  return s;
}

// The axes' placements laid over one another give the whole one back.
std::string read_axes(const YamlNode& node, Candidate& candidate) {
  MapReader in(node, "axes");
  std::string placement;
  for (const Axis axis : kAxes) {
    const YamlNode* item = in.find(std::string(to_string(axis)));
    if (item == nullptr) continue;
    MapReader a(*item, concat("axes.", to_string(axis)));
    const int degree = static_cast<int>(a.integer("degree", 1, kMostRanks));
    if (degree != candidate.mesh.degrees()[axis])
      a.fail("degree", concat("is ", degree, ", but the mesh has ", candidate.mesh.degrees()[axis]));
    const std::string own = a.text("placement", "");
    if (placement.empty()) placement = own;
    for (std::size_t i = 0; i < std::min(own.size(), placement.size()); ++i)
      if (own[i] != '.') placement[i] = own[i];
    if (axis == Axis::kRing)
      candidate.ring_method = static_cast<RingMethod>(a.one_of("method", {"p2p", "allgather"}));
    a.find("heads");
    a.finish();
  }
  in.finish();
  return placement;
}

Measurement measurement_of(const YamlNode& node, const std::string& path) {
  MapReader in(node, path);
  Measurement m;
  m.error = in.text("error", "");
  m.step_median = Seconds(in.number_or("step_s", 0));
  m.step_min = Seconds(in.number_or("step_min_s", 0));
  m.step_max = Seconds(in.number_or("step_max_s", 0));
  m.step_spread = Seconds(in.number_or("step_spread_s", 0));
  m.iterations = static_cast<int>(in.integer_or("iterations", 0, 0));
  m.warmup = static_cast<int>(in.integer_or("warmup", 0, 0));
  m.peak_memory = Bytes(static_cast<double>(in.integer_or("peak_bytes", 0, 0, std::int64_t{1} << 60)));
  const auto numbers = [&](const char* key, auto add) {
    if (const YamlNode* map = in.find(key)) {
      MapReader values(*map, in.name(key));
      for (const auto& entry : map->entries) add(entry.key, values.number(entry.key));
    }
  };
  numbers("phases_s", [&](const std::string& k, double v) { m.phases_s[k] = v; });
  numbers("wire_bytes", [&](const std::string& k, double v) { m.wire_bytes[k] = v; });
  numbers("collectives", [&](const std::string& k, double v) { m.collectives[k] = static_cast<std::int64_t>(v); });
  if (const YamlNode* steps = in.find("steps_s"))
    for (const YamlNode& step : steps->items) m.steps_s.push_back(step.number("steps_s"));
  m.plan_hash = in.text("plan_hash", "");
  if (const YamlNode* software = in.find("software")) {
    MapReader values(*software, in.name("software"));
    for (const auto& entry : software->entries) m.software[entry.key] = values.text(entry.key);
  }
  m.host = in.text("host", "");
  m.file = in.text("file", "");
  if (m.error.empty() && m.step_median.value <= 0) in.fail("step_s", "a measurement has step_s above 0, or an error");
  in.find("hpplan_measurement");
  in.finish();
  return m;
}

}  // namespace

Plan parse_plan(const std::string& text, const std::string& file) {
  const YamlNode root = parse_yaml(text, file);
  MapReader top(root);
  const std::int64_t schema = top.integer("hpplan", 1, 1000);
  if (schema != Plan::kSchema)
    top.fail("hpplan", concat("plan schema ", schema, "; this program reads schema ", Plan::kSchema,
                              ", make the plan again"));
  check_hash(root, top);

  Plan plan{.chosen = {.mesh = Mesh(Degrees{}, {}, {0}, {0})}};
  MapReader model(top.require("model"), "model");
  plan.model = read_model(model);
  plan.model_hash = model.text("hash");
  model.finish();
  check_model(plan.model, file);

  MapReader workload(top.require("workload"), "workload");
  plan.workload = read_workload(workload, plan.rows);
  plan.workload_hash = workload.text("hash");
  workload.finish();

  MapReader topology(top.require("topology"), "topology");
  plan.topology.name = topology.text("name");
  Level all;
  all.name = "device";
  all.size = static_cast<int>(topology.integer("devices", 1, kMostRanks));
  plan.topology.levels = {all};
  const std::int64_t used = topology.integer("used", 1, kMostRanks);
  plan.topology.device = topology.text("device", "");
  plan.topology.vendor = topology.text("vendor", "");
  plan.topology.devices_per_os_node = static_cast<int>(topology.integer("devices_per_os_node", 0, kMostRanks));
  plan.topology_hash = topology.text("hash");
  topology.finish();

  plan.engine.name = top.text("engine");
  plan.fabric_rules = static_cast<FabricRules>(
      1 + top.one_of_or("fabric_rules", {"eager", "compiled"}, -1));
  plan.chosen.mesh = read_mesh(top.require("mesh"), plan.hosts);
  if (plan.chosen.mesh.size() != used)
    top.fail("topology", concat("topology.used is ", used, ", but the mesh has ", plan.chosen.mesh.size(), " ranks"));
  plan.chosen.placement = read_axes(top.require("axes"), plan.chosen);
  plan.chosen.split = read_split(top.require("split"));
  {
    MapReader predicted(top.require("predicted"), "predicted");
    plan.chosen.predicted.step = Seconds(predicted.number("step_s"));
  }
  if (const YamlNode* measured = top.find("measured"))
    plan.chosen.measured = measurement_of(*measured, "measured");
  for (const char* key : {"memory", "launch"}) top.find(key);
  for (const std::string& key : kOutsideHash) top.find(key);
  top.finish();
  plan.hash = top.text("hash");
  return plan;
}

Plan read_plan(const std::string& path) { return parse_plan(read_text_file(path), path); }

Measurement parse_measurement(const std::string& text, const std::string& file) {
  const YamlNode root = parse_yaml(text, file);
  return measurement_of(root, "");
}

Measurement read_measurement(const std::string& path) {
  Measurement m = parse_measurement(read_text_file(path), path);
  m.file = path;
  return m;
}

}  // namespace hpplan
