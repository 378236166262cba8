// Rules of an explicit mesh: the fabric accepts every group of every axis, and the engine
// builds them.
#include <algorithm>

#include "planner/rules_parts.h"
#include "planner/spec/error.h"

namespace hpplan {
namespace {

// Device ids of a mesh as indices of the topology (row-major coordinates).
std::vector<int> device_indices(const Topology& topology, const std::vector<int>& ids) {
  if (topology.device_ids.empty()) return ids;
  std::vector<int> indices;
  for (const int id : ids) {
    const auto at = std::find(topology.device_ids.begin(), topology.device_ids.end(), id);
    indices.push_back(at == topology.device_ids.end()
                          ? -1
                          : static_cast<int>(at - topology.device_ids.begin()));
  }
  return indices;
}

// Rank of a mesh whose coordinates along `axes` (fastest first) count from the place
// `index`.
void put(std::array<int, kAxisCount>& at, const std::vector<Axis>& axes,
         const Degrees& degrees, int index) {
  for (const Axis axis : axes) {
    at[static_cast<std::size_t>(axis)] = index % degrees[axis];
    index /= degrees[axis];
  }
}

std::optional<Mesh> mesh_of_grid(const RankGrid& grid, const Topology& topology,
                                 const Degrees& degrees) {
  if (grid.lines.empty() || degrees.sequence() == 1 || degrees.replica() > 1 ||
      grid.group_rule != topology.group_rule)
    return std::nullopt;
  int along = 1, across = 1;
  for (const Axis axis : grid.along) along *= degrees[axis];
  for (const Axis axis : grid.across) across *= degrees[axis];
  const int lines = static_cast<int>(grid.lines.size()),
            length = static_cast<int>(grid.lines.front().size());
  if (lines * length != topology.devices() || along != length ||
      along * across != degrees.product() ||
      (grid.all_lines ? across != lines : across > lines))
    return std::nullopt;
  std::vector<int> ranks(static_cast<std::size_t>(degrees.product())),
      devices(ranks.size());
  for (int i = 0; i < across; ++i) {
    for (int j = 0; j < along; ++j) {
      std::array<int, kAxisCount> at = {};
      put(at, grid.along, degrees, j);
      put(at, grid.across, degrees, i);
      std::size_t place = 0;
      for (const Axis axis : kAxes)
        place = place * static_cast<std::size_t>(degrees[axis]) +
                static_cast<std::size_t>(at[static_cast<std::size_t>(axis)]);
      ranks[place] = grid.lines[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
    }
  }
  // The lists name devices; where some lines are left out, ranks count those in use.
  devices = ranks;
  std::sort(devices.begin(), devices.end());
  for (int& rank : ranks)
    rank = static_cast<int>(std::lower_bound(devices.begin(), devices.end(), rank) -
                            devices.begin());
  return Mesh(degrees, {kAxes.begin(), kAxes.end()}, std::move(ranks),
              std::move(devices));
}

}  // namespace

std::optional<Mesh> engine_mesh(const Problem& problem, const Degrees& degrees) {
  if (problem.engine.explicit_mesh) return std::nullopt;
  for (const RankGrid& grid : problem.engine.rank_grids)
    if (auto mesh = mesh_of_grid(grid, problem.topology, degrees)) return mesh;
  return Mesh::from_order(degrees, problem.engine.rank_order);
}

std::vector<Collective> collectives_of(Axis axis, RingMethod method) {
  switch (axis) {
    case Axis::kTp:
      return {Collective::kAllReduce};
    case Axis::kUlysses:
      return {Collective::kAllToAll};
    case Axis::kRing:
      return {method == RingMethod::kP2p ? Collective::kShift : Collective::kAllGather};
    case Axis::kCfg:
      return {Collective::kAllGather};
    case Axis::kReplica:
      return {};
  }
  return {};
}

std::vector<Finding> check_mesh(const Problem& problem, const Mesh& mesh,
                                RingMethod method) {
  std::vector<Finding> findings = rules::check_expressible(problem, mesh);
  const std::vector<int> device = device_indices(problem.topology, mesh.devices());
  const int devices = problem.topology.devices();
  const int lowest = *std::min_element(device.begin(), device.end());
  const int highest = *std::max_element(device.begin(), device.end());
  if (lowest < 0 || highest >= devices) {
    findings.push_back(
        rules::error("world-size",
                     concat("the mesh uses a device that ", problem.topology.name,
                            " does not have (it has ", devices, ")"),
                     concat("device ids of ", problem.topology.name)));
    return findings;
  }
  const int tp = mesh.degrees().tp();
  if (rules::equal_shapes_only(problem.topology) && lowest % tp != 0)
    findings.push_back(rules::error(
        "slice-start",
        concat("the job's cores start at ", lowest, ", which is no multiple of tp ", tp,
               "; such a slice compiles and fails at load"),
        concat("a slice that starts at ", lowest / tp * tp, " or ",
               (lowest / tp + 1) * tp)));
  HP_CHECK(problem.fabric != nullptr, problem.topology.name);
  for (auto axis = kAxes.rbegin(); axis != kAxes.rend(); ++axis) {
    if (mesh.degrees()[*axis] == 1) continue;
    auto groups = mesh.groups(*axis);
    for (auto& group : groups)
      for (int& member : group) member = device[static_cast<std::size_t>(member)];
    for (const Collective op : collectives_of(*axis, method))
      if (auto finding = problem.fabric->refuse(op, *axis, groups, problem.fabric_rules,
                                                mesh.size()))
        findings.push_back(std::move(*finding));
  }
  return findings;
}

}  // namespace hpplan
