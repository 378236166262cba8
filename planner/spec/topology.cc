#include "planner/spec/topology.h"

#include <algorithm>
#include <array>

#include "planner/spec/error.h"

namespace hpplan {
namespace {

// Above it no plan is made: a thousand times the largest published scale-up machine.
constexpr std::int64_t kMostDevices = std::int64_t{1} << 20;

}  // namespace

std::string_view to_string(LinkKind kind) {
  constexpr std::array<std::string_view, 8> kNames = {
      "shared", "switch", "ring", "full-mesh", "pcie", "bridge", "network", "graph"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view to_string(PeerAccess access) {
  constexpr std::array<std::string_view, 5> kNames = {
      "not-applicable", "works", "all-to-all-collapses", "none", "unknown"};
  return kNames[static_cast<std::size_t>(access)];
}

std::string_view to_string(GroupRule rule) {
  constexpr std::array<std::string_view, 4> kNames = {"any", "neuron-torus",
                                                      "neuron-trn1", "tpu-torus"};
  return kNames[static_cast<std::size_t>(rule)];
}

std::string_view to_string(FabricRules rules) {
  constexpr std::array<std::string_view, 3> kNames = {"not-applicable", "eager",
                                                      "compiled"};
  return kNames[static_cast<std::size_t>(rules)];
}

int Topology::devices() const {
  std::int64_t n = 1;
  for (const Level& level : levels) {
    n *= level.size;
    if (n > kMostDevices)
      throw InputError(concat("topology ", name, ": more than ", kMostDevices,
                              " devices; the most is ", kMostDevices));
  }
  return static_cast<int>(n);
}

Topology with_nodes(const Topology& machine, int nodes) {
  if (nodes < 1)
    throw InputError(
        {"--nodes"}, "",
        concat("expected 1 or more nodes, ", nodes, " was given; nearest: 1"));
  if (nodes == 1) return machine;
  if (!machine.network) {
    const bool clustered =
        std::any_of(machine.levels.begin(), machine.levels.end(),
                    [](const Level& level) { return level.kind == LinkKind::kNetwork; });
    throw InputError({"--nodes"}, "",
                     concat("topology ", machine.name,
                            clustered ? " already has a network level"
                                      : " says nothing about a network between machines",
                            ": expected 1 node, ", nodes, " were given"));
  }
  const int each = machine.devices();
  const std::int64_t most = kMostDevices / each;
  if (nodes > most)
    throw InputError({"--nodes"}, "",
                     concat(nodes, " nodes of ", each, " devices: expected at most ",
                            most, " nodes (", kMostDevices, " devices)"));
  Topology t = machine;
  t.name = concat(machine.name, "-x", nodes);
  t.title = concat(nodes, " x ", machine.title);
  t.aliases.clear();
  Level level = *machine.network;
  level.size = nodes;
  level.kind = LinkKind::kNetwork;
  t.levels.insert(t.levels.begin(), level);
  t.network.reset();
  if (t.devices_per_os_node == 0) t.devices_per_os_node = each;
  for (int node = 1; node < nodes; ++node) {
    for (const int id : machine.device_ids) t.device_ids.push_back(id + node * each);
    for (const Link& link : machine.links)
      t.links.push_back({link.a + node * each, link.b + node * each, link.per_direction});
  }
  // World sizes of one machine go on as whole machines.
  if (!t.world_sizes.empty())
    for (int node = 2; node <= nodes; ++node) t.world_sizes.push_back(node * each);
  return t;
}

}  // namespace hpplan
