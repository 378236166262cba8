#include "planner/match.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

#include "planner/spec/engine_yaml.h"
#include "planner/spec/error.h"
#include "planner/spec/model_yaml.h"
#include "planner/spec/rates_yaml.h"
#include "planner/spec/topology_yaml.h"
#include "planner/spec/yaml_reader.h"

namespace hpplan {
namespace {

struct Pattern {
  std::vector<std::string> words;
  std::string is;
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::vector<Pattern> read_patterns(MapReader& in, const std::string& key) {
  std::vector<Pattern> patterns;
  for (const YamlNode& node : in.require(key).items) {
    MapReader p(node, key);
    patterns.push_back({p.require("words").texts(key), p.text("is")});
    p.finish();
  }
  return patterns;
}

std::string first_of(const std::vector<Pattern>& patterns, const std::string& text) {
  const std::string low = lower(text);
  for (const Pattern& p : patterns)
    if (std::all_of(p.words.begin(), p.words.end(), [&](const std::string& w) { return low.find(w) != std::string::npos; }))
      return p.is;
  return "";
}

std::string text_at(const std::map<std::string, std::string>& map, const std::string& key) {
  const auto it = map.find(key);
  return it == map.end() ? "" : it->second;
}

// The whole number that a text is, or that it starts with; nullopt else ("not stated").
std::optional<int> whole(const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value <= 0) return std::nullopt;
  const char* stop = text.data() + text.size();
  return end == stop || *end == ' ' || *end == '(' || *end == '.' ? std::optional<int>(value) : std::nullopt;
}

struct Size {
  int width = 0, height = 0;
};

// "1344x768" anywhere in a text; "720p"; a lone power-of-two square ("1024", "2048 torch.compile").
std::optional<Size> size_in(const std::string& text) {
  for (std::size_t x = 1; x + 1 < text.size(); ++x) {
    if (text[x] != 'x' || !std::isdigit(static_cast<unsigned char>(text[x - 1])) ||
        !std::isdigit(static_cast<unsigned char>(text[x + 1])))
      continue;
    std::size_t start = x;
    while (start > 0 && std::isdigit(static_cast<unsigned char>(text[start - 1]))) --start;
    Size s;
    std::from_chars(text.data() + start, text.data() + x, s.width);
    std::from_chars(text.data() + x + 1, text.data() + text.size(), s.height);
    if (s.width >= 64 && s.height >= 64) return s;
  }
  const std::string low = lower(text);
  if (low.find("720p") != std::string::npos) return Size{1280, 720};
  if (low.find("480p") != std::string::npos) return Size{832, 480};
  for (const int side : {512, 1024, 2048, 4096, 8192}) {
    const std::string word = std::to_string(side);
    const std::size_t at = low.find(word);
    if (at == std::string::npos) continue;
    const bool left = at == 0 || !std::isalnum(static_cast<unsigned char>(low[at - 1]));
    const bool right = at + word.size() == low.size() || !std::isalnum(static_cast<unsigned char>(low[at + word.size()]));
    if (left && right) return Size{side, side};
  }
  return std::nullopt;
}

// "124f" in a subgroup.
std::optional<int> frames_in(const std::string& text) {
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] != 'f' || !std::isdigit(static_cast<unsigned char>(text[i - 1])) ||
        (i + 1 < text.size() && std::isalnum(static_cast<unsigned char>(text[i + 1]))))
      continue;
    std::size_t start = i;
    while (start > 0 && std::isdigit(static_cast<unsigned char>(text[start - 1]))) --start;
    return whole(text.substr(start, i - start));
  }
  return std::nullopt;
}

// The nearest request the model takes: published sizes are sometimes those of the output after cropping.
void fit(const ModelSpec& model, Workload& w) {
  for (const StreamSpec& s : model.streams) {
    if (s.pixels_h > 0) {
      w.height = std::max(1, (w.height + s.pixels_h / 2) / s.pixels_h) * s.pixels_h;
      w.width = std::max(1, (w.width + s.pixels_w / 2) / s.pixels_w) * s.pixels_w;
      if (s.frame_group == 0) {
        w.frames = 1;
      } else {
        const int k = std::max(0, (w.frames - s.frame_first + s.frame_group / 2) / s.frame_group);
        w.frames = s.frame_first + k * s.frame_group;
      }
    }
  }
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
    not_a_mesh = in.require("not_a_mesh").texts("not_a_mesh");
    in.finish();
  }

  const Catalog& catalog;
  std::vector<Pattern> models, machines, engines, stacks, dtypes;
  std::vector<std::string> not_a_mesh;
  std::map<std::string, std::shared_ptr<const Problem>> problems;  // by everything they are made from

  std::shared_ptr<const Problem> problem(const std::string& model_name, const std::string& machine, int nodes,
                                         const std::string& engine_name, const std::string& stack,
                                         const MeasuredGroup& group, const MeasuredRow& row, const Ablation& ablation);
};

std::shared_ptr<const Problem> Matcher::Impl::problem(const std::string& model_name, const std::string& machine,
                                                      int nodes, const std::string& engine_name,
                                                      const std::string& stack, const MeasuredGroup& group,
                                                      const MeasuredRow& row, const Ablation& ablation) {
  Catalog::Entry e = catalog.find(DataKind::kModel, model_name);
  ModelSpec model = parse_model(e.text, e.file);
  Workload w = default_workload(model);
  // What the group says of the dimensions goes before the profile.
  if (const auto heads = whole(text_at(group.workload, "kv_heads")); heads && model.heads % *heads == 0)
    model.kv_heads = *heads;

  std::optional<Size> size = size_in(row.subgroup);
  if (!size) size = size_in(text_at(group.workload, "resolution"));
  if (size) {
    w.width = size->width;
    w.height = size->height;
  }
  std::optional<int> frames = frames_in(row.subgroup);
  if (!frames) frames = whole(text_at(group.workload, "frames"));
  if (frames) w.frames = *frames;
  if (const auto batch = whole(text_at(group.workload, "batch"))) w.batch = *batch;
  if (const auto branches = whole(text_at(group.workload, "cfg_branches"))) w.branches = *branches;
  w.branches = std::max(w.branches, row.cfg);
  std::string dtype = first_of(dtypes, row.subgroup);
  if (dtype.empty() && dtype_from(text_at(group.workload, "dtype"))) dtype = text_at(group.workload, "dtype");
  if (dtype.empty()) dtype = first_of(dtypes, text_at(group.workload, "dtype"));
  if (!dtype.empty()) w.dtype = *dtype_from(dtype);
  fit(model, w);
  // A stated row count holds for the group's own shape, not for a subgroup with a size of its own.
  if (const auto rows = whole(text_at(group.workload, "seq_tokens")); rows && !size_in(row.subgroup)) w.seq_len = *rows;

  std::string key = concat(model_name, '|', machine, '|', nodes, '|', engine_name, '|', stack, '|', w.width, '|',
                           w.height, '|', w.frames, '|', w.batch, '|', w.branches, '|', static_cast<int>(w.dtype), '|',
                           w.seq_len.value_or(0), '|', model.kv_heads, '|', ablation.contention, ablation.head_padding,
                           ablation.host_dispatch, ablation.ring_merge, ablation.elementwise);
  auto& made = problems[key];
  if (made) return made;

  e = catalog.find(DataKind::kTopology, machine);
  Topology topology = parse_topology(e.text, e.file);
  if (nodes > 1) topology = with_nodes(topology, nodes);
  e = catalog.find(DataKind::kEngine, engine_name);
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
    if (!stack.empty() && s.name.find(stack) != std::string::npos) use_stack(engine, topology.vendor, s.name);
  const FabricRules rules = topology.has_fabric_rules ? FabricRules::kCompiled : FabricRules::kNotApplicable;
  Problem p = make_problem(std::move(model), w, std::move(topology), std::move(engine), std::move(device),
                           std::move(fabric), rules);
  p.ablation = ablation;
  made = std::make_shared<const Problem>(std::move(p));
  return made;
}

Matcher::Matcher(const Catalog& catalog) : impl_(std::make_unique<Impl>(catalog)) {}
Matcher::~Matcher() = default;

std::variant<MatchedRow, Unmatched> Matcher::match(const MeasuredGroup& group, const MeasuredRow& row,
                                                   const Ablation& ablation) {
  Impl& m = *impl_;
  if (group.workload.count("op"))
    return Unmatched{concat("measures an operator (", text_at(group.workload, "op"), "), not a denoise step")};
  for (const std::string& key : m.not_a_mesh)
    if (row.other.count(key)) return Unmatched{concat("layout has ", key, ", which is no axis of a mesh")};

  // A group of several models or machines names each in its subgroups.
  std::string model = first_of(m.models, row.subgroup);
  if (model.empty()) model = first_of(m.models, group.model);
  if (model.empty()) return Unmatched{concat("no profile for the model '", group.model, "'")};
  const std::string hardware =
      text_at(group.hardware, "chip") + " " + text_at(group.hardware, "interconnect") + " " + group.software;
  std::string machine = first_of(m.machines, row.subgroup + " " + text_at(group.hardware, "chip"));
  const std::string by_subgroup = first_of(m.machines, row.subgroup + " " + group.software);
  if (const std::string full = first_of(m.machines, hardware + " " + row.subgroup); !full.empty()) machine = full;
  if (!by_subgroup.empty()) machine = by_subgroup;
  if (machine.empty()) return Unmatched{concat("no machine for '", text_at(group.hardware, "chip"), "'")};
  const std::string engine = first_of(m.engines, group.software);
  if (engine == "several") return Unmatched{"several engines in one group; its rows do not say which"};
  if (engine.empty()) return Unmatched{concat("no engine for the software '", group.software.substr(0, 60), "'")};
  const std::string stack = first_of(m.stacks, row.subgroup + " " + group.software);

  MatchedRow matched;
  int ring = row.ring;
  if (const auto gather = row.other.find("agkv"); gather != row.other.end()) {
    const auto degree = whole(gather->second);
    if (!degree) return Unmatched{concat("K/V gather degree '", gather->second, "' is no number")};
    if (ring > 1) return Unmatched{"a ring and a K/V gather at once"};
    ring = *degree;
    matched.method = RingMethod::kAllGather;
  }
  matched.degrees = Degrees::make(row.tp, ring, row.ulysses, row.cfg);
  if (matched.degrees.product() != row.devices)
    return Unmatched{concat(matched.degrees.str(), " is ", matched.degrees.product(), " ranks on ", row.devices,
                            " devices")};

  const Catalog::Entry entry = m.catalog.find(DataKind::kTopology, machine);
  const int have = parse_topology(entry.text, entry.file).devices();
  const int nodes = (row.devices + have - 1) / have;
  try {
    matched.problem = m.problem(model, machine, nodes, engine, stack, group, row, ablation);
  } catch (const InputError& e) {
    return Unmatched{e.what()};
  }
  if (matched.method == RingMethod::kP2p && ring > 1 && !matched.problem->engine.ring_p2p)
    matched.method = RingMethod::kAllGather;

  matched.failed = !row.value;
  if (matched.failed) {
    if (row.status.empty()) return Unmatched{"neither value nor status"};
    return matched;
  }
  const std::string unit = group.unit;
  const double value = *row.value;
  const auto steps = whole(text_at(group.workload, "dit_forwards")) ? whole(text_at(group.workload, "dit_forwards"))
                                                                    : whole(text_at(group.workload, "steps"));
  if (unit.size() > 2 && unit.substr(unit.size() - 2) == "/s") {  // iterations or tokens a second
    matched.seconds = 1 / value;
  } else {
    matched.seconds = unit.substr(0, 2) == "ms" ? value / 1e3 : value;
    if (unit.find('/') != std::string::npos) {
      matched.per_step = true;
    } else if (steps) {
      matched.seconds /= *steps;
      matched.per_step = true;
    }
  }
  return matched;
}

}  // namespace hpplan
