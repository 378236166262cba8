#include "planner/spec/mesh.h"

#include <algorithm>
#include <set>

#include "planner/spec/error.h"

namespace hpplan {

std::string_view to_string(Axis axis) {
  constexpr std::array<std::string_view, kAxisCount> kNames = {"replica", "cfg", "ring", "ulysses", "tp"};
  return kNames[static_cast<std::size_t>(axis)];
}

std::optional<Axis> axis_from(std::string_view name) {
  for (const Axis axis : kAxes)
    if (to_string(axis) == name) return axis;
  return std::nullopt;
}

std::string_view to_string(RingMethod method) {
  return method == RingMethod::kP2p ? "p2p" : "allgather";
}

std::int64_t Degrees::product() const {
  std::int64_t n = 1;
  for (const int d : of_axis) n *= d;
  return n;
}

std::string Degrees::str() const {
  std::string text;
  for (const Axis axis : {Axis::kReplica, Axis::kCfg, Axis::kTp, Axis::kRing, Axis::kUlysses}) {
    if ((*this)[axis] == 1) continue;
    if (!text.empty()) text += " x ";
    text += std::string(to_string(axis)) + std::to_string((*this)[axis]);
  }
  return text.empty() ? "1 device" : text;
}

Degrees Degrees::make(int tp, int ring, int ulysses, int cfg, int replica) {
  Degrees d;
  d[Axis::kTp] = tp;
  d[Axis::kRing] = ring;
  d[Axis::kUlysses] = ulysses;
  d[Axis::kCfg] = cfg;
  d[Axis::kReplica] = replica;
  return d;
}

Mesh::Mesh(Degrees degrees, std::vector<Axis> dims, std::vector<int> ranks, std::vector<int> devices)
    : degrees_(degrees), dims_(std::move(dims)), ranks_(std::move(ranks)), devices_(std::move(devices)) {
  for (const int d : degrees_.of_axis)
    if (d < 1) throw InputError(concat("mesh: a degree must be at least 1, ", d, " was given"));
  std::set<Axis> seen(dims_.begin(), dims_.end());
  if (seen.size() != dims_.size()) throw InputError("mesh: dims names an axis twice");
  for (const Axis axis : kAxes) {
    if (seen.count(axis)) continue;
    if (degrees_[axis] != 1)
      throw InputError(concat("mesh: dims leaves out ", to_string(axis), ", whose degree is ", degrees_[axis]));
    // An axis of degree 1 stands anywhere; outermost changes nothing.
    dims_.insert(dims_.begin(), axis);
  }
  const auto n = static_cast<std::int64_t>(ranks_.size());
  if (degrees_.product() != n)
    throw InputError(concat("mesh: the degrees multiply to ", degrees_.product(), " (", degrees_.str(), ") but ", n,
                            " ranks are listed"));
  if (static_cast<std::int64_t>(devices_.size()) != n)
    throw InputError(concat("mesh: ", n, " ranks but ", devices_.size(), " devices are listed"));
  std::vector<bool> listed(ranks_.size(), false);
  for (const int r : ranks_) {
    if (r < 0 || r >= n) throw InputError(concat("mesh: rank ", r, " is not in 0..", n - 1));
    if (listed[static_cast<std::size_t>(r)]) throw InputError(concat("mesh: rank ", r, " is listed twice"));
    listed[static_cast<std::size_t>(r)] = true;
  }
  if (std::set<int>(devices_.begin(), devices_.end()).size() != devices_.size())
    throw InputError("mesh: a device is given to two ranks");

  coordinates_.resize(ranks_.size());
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    std::size_t rest = i;
    for (auto axis = dims_.rbegin(); axis != dims_.rend(); ++axis) {
      const auto degree = static_cast<std::size_t>(degrees_[*axis]);
      coordinates_[static_cast<std::size_t>(ranks_[i])][static_cast<std::size_t>(*axis)] =
          static_cast<int>(rest % degree);
      rest /= degree;
    }
  }
}

Mesh Mesh::from_order(Degrees degrees, const std::vector<Axis>& fastest_first) {
  std::vector<Axis> dims(fastest_first.rbegin(), fastest_first.rend());
  for (const Axis axis : {Axis::kTp, Axis::kUlysses, Axis::kRing, Axis::kCfg, Axis::kReplica})
    if (std::find(dims.begin(), dims.end(), axis) == dims.end()) dims.insert(dims.begin(), axis);
  std::vector<int> ranks(static_cast<std::size_t>(degrees.product()));
  for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i] = static_cast<int>(i);
  return Mesh(degrees, std::move(dims), ranks, ranks);
}

std::size_t Mesh::place(const std::array<int, kAxisCount>& coordinates) const {
  std::size_t index = 0;
  for (const Axis axis : dims_)
    index = index * static_cast<std::size_t>(degrees_[axis]) +
            static_cast<std::size_t>(coordinates[static_cast<std::size_t>(axis)]);
  return index;
}

int Mesh::coordinate(int rank, Axis axis) const {
  HP_CHECK(rank >= 0 && rank < size(), "rank ", rank, " of ", size());
  return coordinates_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(axis)];
}

std::vector<int> Mesh::group(int rank, Axis axis) const { return group(rank, std::vector<Axis>{axis}); }

std::vector<int> Mesh::group(int rank, const std::vector<Axis>& axes) const {
  HP_CHECK(rank >= 0 && rank < size(), "rank ", rank, " of ", size());
  std::array<int, kAxisCount> at = coordinates_[static_cast<std::size_t>(rank)];
  std::size_t n = 1;
  for (const Axis axis : axes) n *= static_cast<std::size_t>(degrees_[axis]);
  std::vector<int> members(n);
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t rest = i;
    for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
      const auto degree = static_cast<std::size_t>(degrees_[*axis]);
      at[static_cast<std::size_t>(*axis)] = static_cast<int>(rest % degree);
      rest /= degree;
    }
    members[i] = ranks_[place(at)];
  }
  return members;
}

std::vector<std::vector<int>> Mesh::groups(Axis axis) const {
  std::vector<std::vector<int>> all;
  for (const int rank : ranks_)
    if (coordinate(rank, axis) == 0) all.push_back(group(rank, axis));
  return all;
}

}  // namespace hpplan
