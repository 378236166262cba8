#include "planner/spec/topology_yaml.h"

#include <algorithm>
#include <set>

#include "planner/spec/yaml_reader.h"

namespace hpplan {
namespace {

const std::vector<std::string> kKinds = {"shared", "switch", "ring",    "full-mesh",
                                         "pcie",   "bridge", "network", "graph"};
const std::vector<std::string> kAccess = {"not-applicable", "works",
                                          "all-to-all-collapses", "none", "unknown"};
const std::vector<std::string> kRules = {"any", "neuron-torus", "neuron-trn1",
                                         "tpu-torus"};
constexpr int kMostMembers = 1 << 20;

Source read_basis(MapReader& in) {
  const std::string basis = in.text("basis");
  const auto source = source_from(basis);
  if (!source)
    in.fail("basis", concat("expected measured, published, datasheet, fitted, derived or "
                            "assumed, got '",
                            basis, "'"));
  return *source;
}

// What a link moves and how late; the numbers need a basis.
void read_link(MapReader& in, Level& level) {
  if (in.has("link")) level.link = in.bandwidth("link");
  if (level.link && level.link->value <= 0)
    in.fail("link", "expected a bandwidth above 0");
  level.latency = in.seconds_or("latency", Seconds(0));
  if (in.has("nics")) {
    if (level.kind != LinkKind::kNetwork)
      in.fail("nics", "expected at a level of kind network only");
    level.nics = static_cast<int>(in.integer("nics", 1, kMostMembers));
  }
  if (in.has("link") || in.has("latency")) level.source = read_basis(in);
}

Level read_level(const YamlNode& node, const std::string& path) {
  MapReader in(node, path);
  Level level;
  level.name = in.text("name");
  level.size = static_cast<int>(in.integer("size", 1, kMostMembers));
  level.kind = static_cast<LinkKind>(in.one_of("kind", kKinds));
  level.labels = static_cast<Labels>(in.one_of_or("labels", {"binary", "gray"}, 0));
  if (level.labels == Labels::kGray && (level.size & (level.size - 1)) != 0)
    in.fail("labels", concat("gray labels want a size that is a power of two, got ",
                             level.size, "; expected binary"));
  level.wrap = in.boolean_or("wrap", true);
  read_link(in, level);
  in.finish();
  return level;
}

void check_levels(const MapReader& in, const Topology& t) {
  std::set<std::string> names;
  int torus = 0;  // 0 not met, 1 in it, 2 behind it
  for (const Level& level : t.levels) {
    if (!names.insert(level.name).second)
      in.fail("levels", concat("expected different names, got '", level.name, "' twice"));
    if (level.name.find_first_of(": +") != std::string::npos || level.name.empty())
      in.fail("levels", concat("expected a name without blank, ':' and '+', got '",
                               level.name, "'"));
    const bool ring = level.kind == LinkKind::kRing;
    if (ring && torus == 2)
      in.fail("levels", "expected the ring levels of a torus next to each other");
    if (ring) torus = 1;
    if (!ring && torus == 1) torus = 2;
  }
}

void read_links(MapReader& in, Topology& t) {
  const bool graph = std::any_of(t.levels.begin(), t.levels.end(), [](const Level& l) {
    return l.kind == LinkKind::kGraph;
  });
  const YamlNode* links = in.find("links");
  if ((links != nullptr) != graph)
    in.fail("links", graph ? "a level of kind graph needs its links"
                           : "expected a level of kind graph beside links");
  if (links == nullptr) return;
  if (t.levels.back().kind != LinkKind::kGraph)
    in.fail("levels", "expected the graph as the innermost level");
  for (const YamlNode& node : links->items) {
    MapReader one(node, "links");
    Link link;
    const auto ends = one.integers("between", 0, t.devices() - 1);
    if (ends.size() != 2 || ends[0] == ends[1])
      one.fail("between", "expected two different devices");
    link.a = ends[0];
    link.b = ends[1];
    link.per_direction = one.bandwidth("link");
    if (link.per_direction.value <= 0) one.fail("link", "expected a bandwidth above 0");
    one.finish();
    t.links.push_back(link);
  }
  // Every device must be reachable inside its graph.
  const int each = t.levels.back().size;
  std::vector<int> island(static_cast<std::size_t>(t.devices()));
  for (int i = 0; i < t.devices(); ++i) island[i] = i;
  const auto root = [&](int i) {
    while (island[i] != i) i = island[i];
    return i;
  };
  for (const Link& link : t.links) {
    if (link.a / each != link.b / each)
      in.fail("links", concat("devices ", link.a, " and ", link.b,
                              " are not children of one parent"));
    island[root(link.a)] = root(link.b);
  }
  for (int i = 0; i < t.devices(); ++i)
    if (root(i) != root(i / each * each))
      in.fail("links",
              concat("no way leads from device ", i / each * each, " to device ", i));
}

void read_device_ids(MapReader& in, Topology& t) {
  if (!in.has("device_ids")) return;
  t.device_ids = in.integers("device_ids", 0, kMostMembers);
  if (static_cast<int>(t.device_ids.size()) != t.devices())
    in.fail("device_ids", concat("expected ", t.devices(), " ids, one a device, got ",
                                 t.device_ids.size()));
  if (std::set<int>(t.device_ids.begin(), t.device_ids.end()).size() !=
      t.device_ids.size())
    in.fail("device_ids", "expected different ids");
}

}  // namespace

Topology parse_topology(const std::string& text, const std::string& file) {
  const YamlNode root = parse_yaml(text, file);
  MapReader in(root);
  Topology t;
  t.name = in.text("name");
  t.title = in.text("title", t.name);
  t.aliases = in.texts_or_none("aliases");
  t.vendor = in.text("vendor");
  t.device = in.text("device");
  t.fabric = in.text("fabric", "");
  t.device_memory = in.bytes("device_memory");
  if (t.device_memory.value <= 0)
    in.fail("device_memory", "expected memory above 0, such as 80GiB");
  t.device_reserved = in.bytes_or("device_reserved", Bytes(0));
  if (t.device_reserved >= t.device_memory)
    in.fail("device_reserved", "expected less than device_memory");
  t.host_memory = in.bytes_or("host_memory", Bytes(0));

  const YamlNode& levels = in.require("levels");
  if (levels.kind != YamlNode::Kind::kList || levels.items.empty())
    in.fail("levels", concat("expected a list of levels, outermost first, got ",
                             levels.kind_text()));
  for (std::size_t i = 0; i < levels.items.size(); ++i)
    t.levels.push_back(read_level(levels.items[i], concat("levels[", i, "]")));
  check_levels(in, t);
  const int devices = t.devices();
  if (const YamlNode* network = in.find("network")) {
    MapReader net(*network, "network");
    Level level;
    level.name = net.text("name", "node");
    level.kind = LinkKind::kNetwork;
    read_link(net, level);
    net.finish();
    for (const Level& l : t.levels)
      if (l.name == level.name)
        net.fail("name", concat("a level has that name already: '", l.name, "'"));
    t.network = level;
  }
  read_links(in, t);
  read_device_ids(in, t);
  t.devices_per_os_node =
      static_cast<int>(in.integer_or("devices_per_os_node", 0, 0, kMostMembers));
  if (t.devices_per_os_node > 0 && devices % t.devices_per_os_node != 0)
    in.fail("devices_per_os_node",
            concat("expected a divisor of ", devices, ", got ", t.devices_per_os_node));
  t.group_rule = static_cast<GroupRule>(in.one_of_or("group_rule", kRules, 0));
  t.has_fabric_rules = in.boolean_or("fabric_rules", false);
  if (t.has_fabric_rules && t.group_rule != GroupRule::kNeuronTorus)
    in.fail("fabric_rules",
            "eager and compiled rules differ for group_rule neuron-torus only");
  t.peer_access = static_cast<PeerAccess>(in.one_of_or("peer_access", kAccess, 0));
  const bool pcie = std::any_of(t.levels.begin(), t.levels.end(),
                                [](const Level& l) { return l.kind == LinkKind::kPcie; });
  if (pcie && t.peer_access == PeerAccess::kNotApplicable)
    in.fail("peer_access",
            "expected works, all-to-all-collapses, none or unknown: a machine with PCIe "
            "levels "
            "must say what peer-to-peer traffic does");
  if (in.has("world_sizes")) t.world_sizes = in.integers("world_sizes", 1, devices);
  t.notes = in.text("notes", "");

  const YamlNode& sources = in.require("sources");
  if (sources.kind != YamlNode::Kind::kMap)
    in.fail("sources", concat("expected a map, number: where it was read, got ",
                              sources.kind_text()));
  for (const auto& [key, value] : sources.entries) t.sources[key] = value.text(key);
  // No number without its source.
  std::vector<std::string> numbers = {"device_memory"};
  if (in.has("device_reserved")) numbers.push_back("device_reserved");
  if (in.has("host_memory")) numbers.push_back("host_memory");
  for (const Level& level : t.levels)
    if (level.link || level.latency.value > 0) numbers.push_back(level.name);
  if (!t.links.empty()) numbers.push_back("links");
  if (t.network) numbers.push_back("network");
  if (!t.world_sizes.empty()) numbers.push_back("world_sizes");
  for (const std::string& number : numbers)
    if (!t.sources.count(number) && !t.sources.count("all"))
      in.fail("sources", concat("expected where ", number, " was read (sources.", number,
                                " or sources.all)"));
  in.finish();
  return t;
}

}  // namespace hpplan
