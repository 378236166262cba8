#include "planner/spec/engine_yaml.h"

#include "planner/spec/yaml_reader.h"

namespace hpplan {
namespace {

// Names as to_string writes them, so that file and output agree.
template <class T>
T one_of(MapReader& map, const std::string& key, std::initializer_list<T> values) {
  std::vector<std::string> names;
  for (const T value : values) names.emplace_back(to_string(value));
  return values.begin()[map.one_of(key, names)];
}

std::vector<Axis> read_axes_list(MapReader& map, const std::string& key) {
  std::vector<Axis> axes;
  for (const std::string& word : map.texts_or_none(key)) {
    const std::optional<Axis> axis = axis_from(word);
    if (!axis)
      map.fail(key,
               concat("axes tp, ulysses, ring, cfg, replica were expected, '", word,
                      "' was given",
                      did_you_mean(word, {"tp", "ulysses", "ring", "cfg", "replica"})));
    axes.push_back(*axis);
  }
  return axes;
}

// read(MapReader) for each map of a list that may be absent.
template <class T>
std::vector<T> read_list(MapReader& map, const std::string& key, T (*read)(MapReader)) {
  std::vector<T> values;
  const YamlNode* list = map.find(key);
  if (list == nullptr) return values;
  if (list->kind != YamlNode::Kind::kList)
    map.fail(key, concat("a list was expected, ", list->kind_text(), " was given"));
  for (const YamlNode& item : list->items)
    values.push_back(
        read(MapReader(item, concat(map.name(key), "[", values.size(), "]"))));
  return values;
}

Source read_source(MapReader& map) {
  const std::string name = map.text("source");
  const std::optional<Source> source = source_from(name);
  if (!source)
    map.fail(
        "source",
        concat(
            "measured, published, datasheet, fitted, derived or assumed was expected, '",
            name, "' was given"));
  return *source;
}

HeadMode read_mode(MapReader map) {
  const auto rows = {RowPolicy::kStrict, RowPolicy::kPad, RowPolicy::kUneven};
  HeadMode m;
  m.policy = one_of(map, "heads",
                    {HeadPolicy::kStrict, HeadPolicy::kPadRealHead, HeadPolicy::kPadAny,
                     HeadPolicy::kUneven});
  m.rows = one_of<RowPolicy>(map, "rows", rows);
  if (map.has("rows_with_ring"))
    m.rows_with_ring = one_of<RowPolicy>(map, "rows_with_ring", rows);
  m.with_ring = map.boolean_or("with_ring", true);
  m.with_ulysses = map.boolean_or("with_ulysses", true);
  m.pads_qkv = map.boolean_or("pads_qkv", true);
  m.kv_first = map.boolean_or("kv_first", false);
  m.flag = map.text("flag", "");
  m.models = map.texts_or_none("models");
  map.finish();
  return m;
}

RankGrid read_grid(MapReader map) {
  RankGrid g;
  g.group_rule = one_of(map, "group_rule",
                        {GroupRule::kAny, GroupRule::kNeuronTorus, GroupRule::kNeuronTrn1,
                         GroupRule::kTpuTorus});
  g.along = read_axes_list(map, "along");
  g.across = read_axes_list(map, "across");
  g.all_lines = map.boolean_or("all_lines", false);
  for (const YamlNode& line : map.require("lines").items)
    g.lines.push_back(line.integers(map.name("lines"), 0, 1 << 16));
  for (const auto& line : g.lines)
    if (line.size() != g.lines.front().size())
      map.fail("lines", "lists of ranks, all equally long, were expected");
  if (g.lines.empty() || g.lines.front().empty())
    map.fail("lines", "lists of ranks were expected");
  map.finish();
  return g;
}

AttentionKernel read_kernel(MapReader map) {
  AttentionKernel k;
  k.name = map.text("name");
  k.sequence = map.boolean_or("sequence", true);
  k.lse = map.boolean_or("lse", true);
  k.mask = map.boolean_or("mask", true);
  k.index_bits = static_cast<int>(map.integer_or("index_bits", 0, 0, 64));
  map.finish();
  return k;
}

NamedStack read_stack(MapReader map) {
  NamedStack n;
  n.name = n.rates.name = map.text("name");
  n.vendors = map.texts_or_none("vendors");
  n.rates.passes_d = map.number("passes_d");
  n.rates.passes_f = map.number("passes_f");
  n.rates.passes_a = map.number("passes_a");
  n.rates.passes_ulysses_pack = map.number("passes_ulysses_pack");
  n.rates.passes_ring_merge = map.number("passes_ring_merge");
  n.rates.host_per_block = map.seconds("host_per_block");
  n.rates.host_per_collective = map.seconds("host_per_collective");
  n.rates.host_per_hop = map.seconds("host_per_hop");
  n.rates.ulysses_fused = map.boolean_or("ulysses_fused", false);
  n.rates.branches_in_sequence = map.boolean_or("branches_in_sequence", false);
  n.rates.attention_kernel = map.text("attention_kernel", "");
  n.rates.source = read_source(map);
  map.finish();
  return n;
}

void read_axes(MapReader map, Engine& e) {
  e.tp = map.boolean_or("tp", true);
  e.tp_with_sequence = map.boolean_or("tp_with_sequence", true);
  e.ring_p2p = e.ring_allgather = false;
  for (const std::string& method : map.texts_or_none("ring")) {
    if (method != "p2p" && method != "allgather")
      map.fail("ring", concat("methods p2p and allgather were expected, '", method,
                              "' was given", did_you_mean(method, {"p2p", "allgather"})));
    (method == "p2p" ? e.ring_p2p : e.ring_allgather) = true;
  }
  e.ring_with_ulysses = map.boolean_or("ring_with_ulysses", true);
  e.allgather_with_ulysses = map.boolean_or("allgather_with_ulysses", true);
  e.gather_in_blocks = map.boolean_or("gather_in_blocks", false);
  e.ring_with_mask = map.boolean_or("ring_with_mask", true);
  e.ring_with_joint = map.boolean_or("ring_with_joint", true);
  e.ring_with_gqa = map.boolean_or("ring_with_gqa", true);
  e.sequence_groups_ignore_tp = map.boolean_or("sequence_groups_ignore_tp", false);
  const std::string cfg = map.text("cfg");
  e.cfg = cfg != "none";
  e.cfg_max =
      cfg == "none" || cfg == "any" ? 0 : static_cast<int>(map.integer("cfg", 1, 1024));
  map.finish();
}

void read_heads(MapReader map, Engine& e) {
  e.heads_checked_globally = map.boolean_or("checked_globally", false);
  e.kv_replication = map.boolean_or("kv_replication", false);
  e.kv_replication_ulysses = map.boolean_or("kv_replication_ulysses", false);
  map.finish();
}

void read_mesh(MapReader map, Engine& e) {
  e.explicit_mesh = map.boolean_or("explicit", false);
  e.rank_order = read_axes_list(map, "rank_order");
  e.rank_grids = read_list(map, "grids", read_grid);
  map.finish();
}

void read_weights(MapReader map, Engine& e) {
  e.adaln_divided = map.boolean_or("adaln_divided", true);
  e.loads_before_sharding = map.boolean_or("loads_before_sharding", false);
  e.encoder_sharded = map.boolean_or("encoder_sharded", false);
  e.components = static_cast<ComponentPlace>(
      map.one_of_or("components", {"resident", "host-when-short", "elsewhere"}, 0));
  e.fuses_adapters_sharded = map.boolean_or("fuses_adapters_sharded", false);
  map.finish();
}

void read_memory(MapReader map, Engine& e) {
  e.memory_fixed = map.bytes_or("fixed", Bytes(0));
  e.memory_activation_factor = map.number_or("activation_factor", 1);
  e.memory_source = read_source(map);
  map.finish();
}

}  // namespace

Engine parse_engine(const std::string& text, const std::string& file) {
  const YamlNode root = parse_yaml(text, file);
  MapReader map(root);
  Engine e;
  e.name = map.text("name");
  e.title = map.text("title");
  e.source = map.text("source");
  e.aliases = map.texts_or_none("aliases");
  e.vendors = map.texts_or_none("vendors");
  read_axes(MapReader(map.require("axes"), "axes"), e);
  read_heads(MapReader(map.require("heads"), "heads"), e);
  e.head_modes = read_list(map, "head_modes", read_mode);
  if (e.head_modes.empty() || !e.head_modes.front().models.empty())
    map.fail("head_modes", "a mode for every model was expected first");
  read_mesh(MapReader(map.require("mesh"), "mesh"), e);
  read_weights(MapReader(map.require("weights"), "weights"), e);
  e.replicates_uneven_text = map.boolean_or("replicates_uneven_text", false);
  e.masks_padding = map.boolean_or("masks_padding", false);
  e.shards_row_index = map.boolean_or("shards_row_index", true);
  e.row_multiple = static_cast<int>(map.integer_or("row_multiple", 1, 1, 1 << 20));
  e.index_bits = static_cast<int>(map.integer_or("index_bits", 0, 0, 64));
  e.attention_kernels = read_list(map, "attention_kernels", read_kernel);
  e.stacks = read_list(map, "stacks", read_stack);
  if (e.stacks.empty()) map.fail("stacks", "a software stack was expected");
  if (const YamlNode* memory = map.find("memory"))
    read_memory(MapReader(*memory, "memory"), e);
  map.finish();
  e.stack = e.stacks.front().rates;
  return e;
}

Engine read_engine(const std::string& path) {
  return parse_engine(read_text_file(path), path);
}

}  // namespace hpplan
