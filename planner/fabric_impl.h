// What the fabric*.cc files share; nobody else includes it.
//
// A fabric is a set of resources with a capacity: device ports, uplinks of a tree, links of a torus or a mesh,
// host memory, NICs. One wire byte sent by every rank of every sibling group puts bytes on resources; the load
// is the busiest resource's bytes over capacity, in seconds.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/fabric.h"
#include "planner/fabric_graph.h"

namespace hpplan {

// How a collective moves its bytes: everyone to everyone, round a ring by a library that spreads it over
// several channels, or round a ring by one send and one receive a rank.
enum class Pattern : std::uint8_t { kAllPairs, kRing, kShift };
Pattern pattern_of(Collective op, const FabricRates& rates);

struct Fabric::Impl {
  Impl(const Topology& topology, const FabricRates& rates);

  Topology topology;
  FabricRates rates;
  int devices = 1;
  std::vector<int> size, stride;      // by level
  int ring_first = 0, ring_last = 0;  // levels of the torus, [first, last)
  int network = -1;                   // innermost network level
  int socket_level = -1;              // outermost PCIe level
  bool socket_split = false;          // it has PCIe levels below it
  bool bounce = false;                // no peer access: through host memory
  double widest_ring = 0, widest_graph = 0;
  graph::Routes routes;               // over Topology::links
  std::vector<std::vector<int>> domains;
  // load of one group on the first n devices, by (collective, n) of every curve
  std::map<std::pair<Collective, int>, double> reference;

  // --- fabric.cc
  LinkKind kind(int level) const { return topology.levels[static_cast<std::size_t>(level)].kind; }
  int coordinate(int device, int level) const { return device / stride[level] % size[level]; }
  bool torus() const { return ring_last > ring_first; }
  int chip(int device) const { return device / stride[ring_last - 1]; }  // over the whole machine
  int divergence(int a, int b) const;  // outermost level at which two devices differ
  // Bytes a second in one direction; 0: not a limit.
  double link_capacity(int level) const;    // kRing, kFullMesh, kBridge
  double uplink_capacity(int level) const;  // of one child of a kSwitch or kPcie level
  double graph_capacity(int link) const;
  double nic_capacity() const;              // of one NIC
  int nics() const;                         // of one child of the network level
  int nic_of(int device) const;             // over the whole machine
  int network_levels() const;
  double port_capacity(const CollectiveCurve* curve) const;
  // The curve a collective of n ranks is predicted from: its own at n, else the largest below n, else the
  // smallest; of a related collective where it has none; nullptr when nothing is known.
  const CollectiveCurve* curve_for(Collective op, int n) const;
  Seconds latency_of(const std::vector<bool>& crossed, int n_reference) const;
  AxisPath finish(Collective op, int n, double load, const std::vector<bool>& crossed) const;
  // Seconds on the busiest resource for one wire byte a rank; by closed forms. The ring walk over a torus is
  // no closed form: kRing and kShift over ring levels go through load().
  double load_of_digits(Pattern pattern, const DigitSpace& space, DigitSet set, const CollectiveCurve* curve) const;

  // --- fabric_load.cc: the same for explicit groups, byte by byte.
  double load(Pattern pattern, const std::vector<std::vector<int>>& groups, const CollectiveCurve* curve) const;

  // --- fabric_groups.cc
  // Answers of find_cycle, so that no search runs twice; guarded for callers on several threads.
  struct Cycle {
    std::optional<std::vector<int>> walk;
    bool exhausted = false;
  };
  mutable std::map<std::vector<int>, Cycle> cycles;
  mutable std::mutex cycles_guard;
  bool adjacent(int chip_a, int chip_b) const;
  // A closed walk over links through all chips; nullopt when there is none or the budget ran out.
  std::optional<std::vector<int>> chip_cycle(const std::vector<int>& chips, bool* exhausted) const;
  std::optional<std::vector<int>> find_cycle(const std::vector<int>& chips, bool* exhausted) const;
  std::optional<std::vector<int>> graph_cycle(const std::vector<int>& chips, bool* exhausted) const;
  std::optional<std::vector<int>> ring_walk(const std::vector<int>& group, bool* exhausted) const;
  // Why a group is not routable; "" when it is.
  std::string why_not_routable(const std::vector<int>& group) const;
};

}  // namespace hpplan
