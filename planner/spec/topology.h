// Topology: a machine as a list of levels, outermost first, with the links and collective-group rules of
// its fabric. Read from topologies/*.yaml. Every device has explicit coordinates in the levels.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/spec/model.h"
#include "planner/spec/units.h"

namespace hpplan {

// How the members of one level (the children of one parent) are joined.
enum class LinkKind : std::uint8_t {
  kShared,    // cores of one chip, threads of one host: no link to count
  kSwitch,    // any pair, any subset, full bandwidth per member (NVSwitch, NeuronSwitch)
  kRing,      // neighbours only, with wrap link if `wrap`; several adjacent kRing levels make a torus
  kFullMesh,  // one link per pair (MI300X)
  kPcie,      // PCIe tree: uplinks are shared by everything below; see PeerAccess
  kBridge,    // NVLink bridge inside the level, full bandwidth between its members
  kNetwork,   // NICs of the child, shared by all devices below it (nodes of a cluster)
  kGraph,     // explicit links by device (Topology::links)
};
std::string_view to_string(LinkKind kind);

enum class Labels : std::uint8_t { kBinary, kGray };

struct Level {
  std::string name;   // "node", "row", "col", "core", "gpu"
  int size = 1;       // children per parent
  LinkKind kind = LinkKind::kSwitch;
  Labels labels = Labels::kBinary;
  bool wrap = true;   // kRing only; a slice shorter than the level has no wrap link
  // One direction. kSwitch/kBridge: of one member. kRing: of one link between two neighbouring members.
  // kFullMesh: of one pair's link. kPcie: of one child's uplink. kNetwork: of all NICs of one child.
  std::optional<BytesPerSecond> link;
  // kNetwork: NICs that share `link`, each serving as many neighbouring devices of the child; 0: one a device.
  int nics = 0;
  Seconds latency;
  Source source = Source::kAssumed;
};

// The one input that decides the order on PCIe boxes: what peer-to-peer traffic really does. Never guessed
// from labels.
enum class PeerAccess : std::uint8_t { kNotApplicable, kWorks, kAllToAllCollapses, kNone, kUnknown };
std::string_view to_string(PeerAccess access);

// Which replica groups the collectives of the machine accept.
enum class GroupRule : std::uint8_t {
  kAny,          // NCCL, Gloo
  kNeuronTorus,  // trn2: ring_ok for every collective; eager all-to-all also wants aligned runs
  kNeuronTrn1,   // trn1: world sizes 1, 2, 8, 16, 32k; ring_ok
  kTpuTorus,     // wrap links only on full axes
};
std::string_view to_string(GroupRule rule);

struct Link {  // kGraph: one undirected link between two devices
  int a = 0;
  int b = 0;
  BytesPerSecond per_direction;
};

struct Topology {
  std::string name;
  std::string title;
  std::vector<std::string> aliases;
  std::string vendor;             // nvidia, amd, aws-neuron, google, cpu
  std::vector<Level> levels;      // outermost first
  std::vector<int> device_ids;    // device id at each coordinate, row-major; empty: 0, 1, 2, ...
  std::vector<Link> links;        // kGraph levels
  std::string device;             // rates: profiles/devices/<device>.yaml
  std::string fabric;             // collective curves: profiles/devices/fabrics/<fabric>.yaml; "" none
  Bytes device_memory;
  Bytes device_reserved;          // kept back by driver and runtime
  Bytes host_memory;              // of one operating-system node; 0 unknown
  int devices_per_os_node = 0;    // processes one launcher starts; 0: all
  GroupRule group_rule = GroupRule::kAny;
  bool has_fabric_rules = false;  // the user may choose eager or compiled
  PeerAccess peer_access = PeerAccess::kNotApplicable;
  // World sizes the machine's runtime accepts besides what the fabric says; empty: any.
  std::vector<int> world_sizes;
  std::optional<Level> network;   // how copies of the machine are joined (kNetwork, size unset); none: not known
  std::string notes;
  std::map<std::string, std::string> sources;  // number -> where it was read

  int devices() const;            // product of the level sizes
};

enum class FabricRules : std::uint8_t { kNotApplicable, kEager, kCompiled };
std::string_view to_string(FabricRules rules);

// `nodes` copies of the machine joined by its network level; throws InputError when it says nothing about
// a network between machines.
Topology with_nodes(const Topology& machine, int nodes);

}  // namespace hpplan
