#include "planner/match.h"

#include <algorithm>

#include "planner/match_layout.h"
#include "planner/match_text.h"
#include "planner/spec/engine_yaml.h"
#include "planner/spec/error.h"
#include "planner/spec/model_yaml.h"
#include "planner/spec/rates_yaml.h"
#include "planner/spec/reading_rules.h"
#include "planner/spec/topology_yaml.h"
#include "planner/spec/yaml_reader.h"

namespace hpplan {
namespace {

// The nearest request the model takes: published sizes are sometimes those of the output
// after cropping.
void fit(const ModelSpec& model, Workload& w) {
  for (const StreamSpec& s : model.streams) {
    if (s.pixels_h > 0) {
      w.height = std::max(1, (w.height + s.pixels_h / 2) / s.pixels_h) * s.pixels_h;
      w.width = std::max(1, (w.width + s.pixels_w / 2) / s.pixels_w) * s.pixels_w;
      if (s.frame_group == 0) {
        w.frames = 1;
      } else {
        const int k =
            std::max(0, (w.frames - s.frame_first + s.frame_group / 2) / s.frame_group);
        w.frames = s.frame_first + k * s.frame_group;
      }
    }
  }
}

std::optional<int> number_of(const Attributes& attributes, const std::string& key) {
  const auto at = attributes.find(key);
  return at == attributes.end() ? std::nullopt : whole(at->second);
}

// Blocks of the usual kind from dimensions alone; nullopt when one is missing.
std::optional<ModelSpec> model_of_dimensions(const std::string& name,
                                             const Attributes& a) {
  const auto heads = number_of(a, "heads"), head_dim = number_of(a, "head_dim"),
             hidden = number_of(a, "hidden"), blocks = number_of(a, "blocks");
  if (!heads || !head_dim || !hidden || !blocks) return std::nullopt;
  ModelSpec model;
  model.name = model.title = name.substr(0, 60);
  model.heads = *heads;
  model.kv_heads = number_of(a, "kv_heads").value_or(*heads);
  model.head_dim = *head_dim;
  model.hidden = *hidden;
  BlockSpec block;
  block.name = "block";
  block.count = *blocks;
  block.mlp_width = number_of(a, "mlp_width").value_or(4 * *hidden);
  model.blocks = {block};
  StreamSpec rows;
  rows.name = "rows";
  model.streams = {rows};
  model.defaults.height = model.defaults.width = 1;
  check_model(model, "workload");
  return model;
}

}  // namespace

struct Matcher::Impl {
  explicit Impl(const Catalog& c) : catalog(c) {
    const Catalog::Entry entry = c.find(DataKind::kMeasurements, "patterns");
    const YamlNode root = parse_yaml(entry.text, entry.file);
    MapReader in(root);
    models = read_patterns(in, "models");
    machines = read_patterns(in, "machines");
    engines = read_patterns(in, "engines");
    stacks = read_patterns(in, "stacks");
    dtypes = read_patterns(in, "dtypes");
    kernels = read_patterns(in, "kernels");
    numbers = read_reading_rules(in.require("numbers"), "numbers");
    not_a_mesh = in.require("not_a_mesh").texts("not_a_mesh");
    in.finish();
    for (const Catalog::Entry& e : c.all(DataKind::kModel)) {
      const ModelSpec model = parse_model(e.text, e.file);
      for (const std::string& written : {model.name, model.title})
        model_names.add(written, e.name);
      for (const std::string& written : model.aliases) model_names.add(written, e.name);
    }
    for (const Catalog::Entry& e : c.all(DataKind::kEngine)) {
      const Engine engine = parse_engine(e.text, e.file);
      for (const std::string& written : {engine.name, engine.title})
        engine_names.add(written, e.name);
      for (const std::string& written : engine.aliases) engine_names.add(written, e.name);
    }
    for (const Catalog::Entry& e : c.all(DataKind::kTopology)) {
      machines_by_name.emplace(e.name, parse_topology(e.text, e.file));
      const Topology& machine = machines_by_name.at(e.name);
      machine_names.add(machine.name, e.name);
      for (const std::string& written : machine.aliases)
        machine_names.add(written, e.name);
    }
  }

  // What a row is about, by name.
  struct Names {
    std::string model, machine, engine, stack,
        kernel;          // model "": the dimensions in the workload
    std::string reason;  // why not, or ""
  };
  Names names_of(const MeasuredGroup& group, const MeasuredRow& row) const;
  Attributes attributes_of(const MeasuredGroup& group, const MeasuredRow& row) const;
  ModelSpec model_of(const MeasuredGroup& group, const Names& names, const Attributes& a,
                     bool op) const;
  Workload workload_of(const MeasuredGroup& group, const MeasuredRow& row,
                       const ModelSpec& model, const Attributes& a) const;
  std::shared_ptr<const Problem> problem(const MeasuredGroup& group,
                                         const MeasuredRow& row, const Names& names,
                                         const Attributes& a, bool op,
                                         const Ablation& ablation);

  const Catalog& catalog;
  std::vector<Pattern> models, machines, engines, stacks, dtypes, kernels;
  std::vector<ReadingRule> numbers;
  std::vector<std::string> not_a_mesh;
  NameTable model_names, engine_names, machine_names;
  std::map<std::string, Topology> machines_by_name;
  std::map<std::string, std::shared_ptr<const Problem>>
      problems;  // by everything they are made from
};

// A group of several models or machines names each in its subgroups, so those are looked
// at first.
Matcher::Impl::Names Matcher::Impl::names_of(const MeasuredGroup& group,
                                             const MeasuredRow& row) const {
  Names names;
  for (const std::string& text : {row.subgroup, group.model}) {
    if (names.model.empty()) names.model = first_of(models, text);
    if (names.model.empty()) names.model = model_names.within(text);
  }

  const std::string chip = text_at(group.hardware, "chip");
  if (const std::string given = text_at(group.hardware, "topology"); !given.empty()) {
    names.machine = given;
  } else {
    const std::string tried[] = {row.subgroup + " " + group.software,
                                 chip + " " + text_at(group.hardware, "interconnect") +
                                     " " + group.software + " " + row.subgroup,
                                 row.subgroup + " " + chip};
    for (const std::string& text : tried)
      if (names.machine.empty()) names.machine = first_of(machines, text);
    if (names.machine.empty())
      names.machine = machine_names.within(text_at(group.hardware, "instance"));
    if (names.machine.empty()) {
      names.reason = concat("no machine for '", chip, "'");
      return names;
    }
  }
  if (!machines_by_name.contains(names.machine))
    names.machine = catalog.find(DataKind::kTopology, names.machine).name;
  // The class of a PCIe host as the file gives it: the machine with the same device and
  // that class.
  if (const std::string given = text_at(group.hardware, "peer_access"); !given.empty()) {
    const Topology& taken = machines_by_name.at(names.machine);
    for (const auto& [name, machine] : machines_by_name)
      if (to_string(taken.peer_access) != given && machine.device == taken.device &&
          to_string(machine.peer_access) == given)
        names.machine = name;
    if (to_string(machines_by_name.at(names.machine).peer_access) != given) {
      names.reason =
          concat("no machine with ", taken.device, " and peer_access '", given, "'");
      return names;
    }
  }

  names.engine = first_of(engines, group.software);
  if (names.engine.empty()) names.engine = engine_names.within(group.software);
  if (names.engine == "several")
    names.reason = "several engines in one group; its rows do not say which";
  if (names.engine.empty())
    names.reason =
        concat("no engine for the software '", group.software.substr(0, 60), "'");
  const std::string software = row.subgroup + " " + group.software;
  names.stack = first_of(stacks, software);
  names.kernel =
      first_of(kernels, concat(names.engine, ' ',
                               machines_by_name.at(names.machine).device, ' ', software));
  return names;
}

// Numbers: what the subgroup says, then numbers of the workload, then its texts.
Attributes Matcher::Impl::attributes_of(const MeasuredGroup& group,
                                        const MeasuredRow& row) const {
  Fields fields = {{"subgroup", row.subgroup},
                   {"variant", text_at(row.other, "variant")}};
  Attributes a;
  apply(numbers, fields, a);
  for (const auto& [key, text] : group.workload)
    if (const auto value = whole(text))
      a.emplace(key == "dit_forwards" ? "forwards"
                : key == "layers"     ? "blocks"
                                      : key,
                std::to_string(*value));
  for (const auto& [key, text] : group.workload) fields.emplace(key, text);
  apply(numbers, fields, a);
  return a;
}

ModelSpec Matcher::Impl::model_of(const MeasuredGroup& group, const Names& names,
                                  const Attributes& a, bool op) const {
  if (op) {  // one block of that attention, so that rules and meshes have a model to look
             // at
    Attributes whole_block = a;
    const int width =
        number_of(a, "heads").value_or(0) * number_of(a, "head_dim").value_or(128);
    whole_block.emplace("head_dim", "128");
    whole_block.emplace("hidden", std::to_string(width));
    whole_block["blocks"] = "1";
    if (auto model = model_of_dimensions(group.model, whole_block)) return *model;
    throw InputError("the heads of the operator are not given");
  }
  if (names.model.empty()) {
    if (auto model = model_of_dimensions(group.model, a)) return *model;
    throw InputError(
        concat("no profile for the model '", group.model,
               "', and heads, head_dim, hidden and blocks are not all given"));
  }
  const Catalog::Entry e = catalog.find(DataKind::kModel, names.model);
  ModelSpec model = parse_model(e.text, e.file);
  // What the group says of the dimensions goes before the profile.
  if (const auto heads = number_of(a, "kv_heads"); heads && model.heads % *heads == 0)
    model.kv_heads = *heads;
  return model;
}

Workload Matcher::Impl::workload_of(const MeasuredGroup& group, const MeasuredRow& row,
                                    const ModelSpec& model, const Attributes& a) const {
  Workload w = default_workload(model);
  std::optional<Size> size = size_in(row.subgroup);
  const bool own_size = size.has_value();
  if (!size) size = size_in(text_at(group.workload, "resolution"));
  if (size) {
    w.width = size->width;
    w.height = size->height;
  }
  std::optional<int> frames = frames_in(row.subgroup);
  const bool own_frames = frames.has_value();
  if (!frames) frames = number_of(a, "frames");
  if (frames) w.frames = *frames;
  w.batch = number_of(a, "batch").value_or(1);
  if (const auto text = number_of(a, "text_tokens")) w.text_rows = *text;
  if (const auto branches = number_of(a, "cfg_branches")) w.branches = *branches;
  w.branches = std::max(w.branches, row.cfg);
  std::string dtype = first_of(dtypes, row.subgroup);
  const std::string stated = text_at(group.workload, "dtype");
  if (dtype.empty() && dtype_from(stated)) dtype = stated;
  if (dtype.empty()) dtype = first_of(dtypes, stated);
  if (!dtype.empty()) w.dtype = *dtype_from(dtype);
  fit(model, w);
  // A stated row count holds for the group's own shape, not for a subgroup with a size of
  // its own.
  std::optional<std::int64_t> rows;
  if (const auto k = number_of(a, "rows_k")) rows = std::int64_t{*k} * 1000;
  if (const auto k = number_of(a, "rows_ki")) rows = std::int64_t{*k} * 1024;
  if (const auto n = number_of(a, "seq_tokens")) rows = *n;
  if (rows) *rows *= number_of(a, "rows_times").value_or(1);
  if (rows && !own_size && !own_frames) w.seq_len = rows;
  return w;
}

std::shared_ptr<const Problem> Matcher::Impl::problem(const MeasuredGroup& group,
                                                      const MeasuredRow& row,
                                                      const Names& names,
                                                      const Attributes& a, bool op,
                                                      const Ablation& ablation) {
  ModelSpec model = model_of(group, names, a, op);
  const Workload w = workload_of(group, row, model, a);
  if ((op || names.model.empty()) && !w.seq_len)
    throw InputError("its rows (seq_tokens) are not given");
  const Topology& machine = machines_by_name.at(names.machine);
  const int nodes = (row.devices + machine.devices() - 1) / machine.devices();

  const std::string key = concat(
      model.name, '|', model.heads, '|', model.kv_heads, '|', model.head_dim, '|',
      model.hidden, '|', names.machine, '|', nodes, '|', names.engine, '|', names.stack,
      '|', names.kernel, '|', w.width, '|', w.height, '|', w.frames, '|', w.batch, '|',
      w.branches, '|', w.text_rows, '|', static_cast<int>(w.dtype), '|',
      w.seq_len.value_or(0), '|', ablation.contention, ablation.head_padding,
      ablation.host_dispatch, ablation.ring_merge, ablation.elementwise);
  auto& made = problems[key];
  if (made) return made;

  const Topology topology = nodes > 1 ? with_nodes(machine, nodes) : machine;
  Catalog::Entry e = catalog.find(DataKind::kEngine, names.engine);
  Engine engine = parse_engine(e.text, e.file);
  e = catalog.find(DataKind::kDevice, topology.device);
  DeviceRates device = parse_device(e.text, e.file);
  FabricRates fabric;
  if (!topology.fabric.empty()) {
    e = catalog.find(DataKind::kFabric, topology.fabric);
    fabric = parse_fabric(e.text, e.file);
  }
  fit_stack(engine, topology.vendor);
  for (const NamedStack& s : engine.stacks)
    if (!names.stack.empty() && s.name.find(names.stack) != std::string::npos)
      use_stack(engine, topology.vendor, s.name);
  if (!names.kernel.empty()) engine.stack.attention_kernel = names.kernel;
  const FabricRules rules =
      topology.has_fabric_rules ? FabricRules::kCompiled : FabricRules::kNotApplicable;
  Problem p = make_problem(std::move(model), w, topology, std::move(engine),
                           std::move(device), std::move(fabric), rules);
  p.ablation = ablation;
  made = std::make_shared<const Problem>(std::move(p));
  return made;
}

Matcher::Matcher(const Catalog& catalog) : impl_(std::make_unique<Impl>(catalog)) {}
Matcher::~Matcher() = default;

std::variant<MatchedRow, Unmatched> Matcher::match(const MeasuredGroup& group,
                                                   const MeasuredRow& row,
                                                   const Ablation& ablation) {
  Impl& m = *impl_;
  const std::string what = text_at(group.workload, "op");
  const bool op = !what.empty();
  if (op && lower(what).find("attention") == std::string::npos)
    return Unmatched{concat("measures an operator (", what,
                            "), neither a denoise step nor an attention call")};
  for (const std::string& key : m.not_a_mesh)
    if (row.other.count(key))
      return Unmatched{concat("layout has ", key, ", which is no axis of a mesh")};
  MatchedRow matched;
  if (const std::string reason = read_layout(row, matched); !reason.empty())
    return Unmatched{reason};
  try {
    const Impl::Names names = m.names_of(group, row);
    if (!names.reason.empty()) return Unmatched{names.reason};
    const Attributes a = m.attributes_of(group, row);
    if (const auto skip = a.find("skip"); skip != a.end()) return Unmatched{skip->second};
    matched.problem = m.problem(group, row, names, a, op, ablation);
    if (op) {
      const ModelSpec& model = matched.problem->model;
      matched.op = {static_cast<double>(matched.problem->workload.batch),
                    model.heads,
                    model.kv_heads,
                    model.head_dim,
                    static_cast<double>(matched.problem->rows.total()),
                    text_at(group.workload, "causal") == "true"};
      const auto balance = a.find("balance");
      matched.balanced = balance == a.end() || balance->second != "none";
    }
    const auto forwards = number_of(a, "forwards");
    matched.failed = !row.value;
    if (row.memory_gib) matched.memory = Bytes(*row.memory_gib * kGiB);
    if (matched.failed && row.status != "oom" && row.status != "does_not_fit")
      return Unmatched{
          row.status.empty()
              ? "neither value nor status"
              : concat("ended for another reason than memory (", row.status, ")")};
    if (row.value)
      if (const std::string reason = read_value(
              group, *row.value, forwards ? forwards : number_of(a, "steps"), matched);
          !reason.empty())
        return Unmatched{reason};
  } catch (const InputError& e) {
    return Unmatched{e.what()};
  }
  if (matched.method == RingMethod::kP2p && matched.degrees.ring() > 1 &&
      !matched.problem->engine.ring_p2p)
    matched.method = RingMethod::kAllGather;
  return matched;
}

}  // namespace hpplan
