#include "runtime/device_mesh.h"

#include <numeric>

#include "planner/spec/error.h"

namespace hpplan::runtime {

DeviceMesh::DeviceMesh(Mesh mesh, int rank)
    : mesh_(std::move(mesh)),
      rank_(rank),
      ledger_(std::make_shared<Ledger>()),
      groups_(kAxisCount) {
  HP_CHECK(rank >= 0 && rank < mesh_.size(), "rank ", rank, " of ", mesh_.size());
}

DeviceMesh::DeviceMesh(Mesh mesh, int rank, const Store& store,
                       const CommOptions& options)
    : DeviceMesh(std::move(mesh), rank) {
  if (options.device >= 0)
    device_ = at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(options.device));
  const auto open = [&](std::string_view name, const std::vector<int>& members,
                        const CommOptions& how) {
    return Group::open(std::string(name), members, rank_, store, how, ledger_);
  };
  for (const Axis axis : kAxes) {
    groups_[static_cast<std::size_t>(axis)] =
        open(to_string(axis), mesh_.group(rank_, axis), options);
  }
  // One axis of the two has one rank: the other is the sequence group itself.
  if (mesh_.degrees().ring() == 1) {
    sequence_ = group(Axis::kUlysses);
  } else if (mesh_.degrees().ulysses() == 1) {
    sequence_ = group(Axis::kRing);
  } else {
    sequence_ =
        open("sequence", mesh_.group(rank_, {Axis::kRing, Axis::kUlysses}), options);
  }
  std::vector<int> everyone(static_cast<std::size_t>(mesh_.size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  CommOptions control = options;
  control.backend = Backend::kGloo;
  control.device = -1;
  world_ = open("world", everyone, control);
}

DeviceMesh DeviceMesh::single() {
  return DeviceMesh(Mesh::from_order(Degrees{}, {Axis::kTp}), 0);
}

const Group& DeviceMesh::group(Axis axis) const {
  return groups_[static_cast<std::size_t>(axis)];
}

std::string DeviceMesh::describe() const {
  std::string text = concat("rank ", rank_);
  std::string place;
  for (const Axis axis : kAxes) {
    if (mesh_.degrees()[axis] == 1) continue;
    place += concat(place.empty() ? "" : ", ", to_string(axis), " ", coordinate(axis));
  }
  return place.empty() ? text : concat(text, " (", place, ")");
}

}  // namespace hpplan::runtime
