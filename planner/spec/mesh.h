// A mesh: how many ways each axis cuts the work, which rank has which coordinates, and which device each
// rank runs on. It is the one source of group membership in the whole project: planner, runtime and every
// exporter derive their groups from here, so no two of them can disagree.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hpplan {

// Axes, outermost first in the order a plan writes them.
//   replica  independent copies serving different requests
//   cfg      guidance branches of one request
//   ring     sequence shards whose K/V travel round (p2p) or are gathered (allgather)
//   ulysses  sequence shards exchanged for head shards by an all-to-all
//   tp       tensor parallel: heads and MLP width
enum class Axis : std::uint8_t { kReplica, kCfg, kRing, kUlysses, kTp };
inline constexpr std::array<Axis, 5> kAxes = {Axis::kReplica, Axis::kCfg, Axis::kRing, Axis::kUlysses,
                                              Axis::kTp};
inline constexpr int kAxisCount = 5;

std::string_view to_string(Axis axis);
std::optional<Axis> axis_from(std::string_view name);

struct Degrees {
  std::array<int, kAxisCount> of_axis = {1, 1, 1, 1, 1};

  int& operator[](Axis a) { return of_axis[static_cast<std::size_t>(a)]; }
  int operator[](Axis a) const { return of_axis[static_cast<std::size_t>(a)]; }
  int tp() const { return (*this)[Axis::kTp]; }
  int ring() const { return (*this)[Axis::kRing]; }
  int ulysses() const { return (*this)[Axis::kUlysses]; }
  int cfg() const { return (*this)[Axis::kCfg]; }
  int replica() const { return (*this)[Axis::kReplica]; }
  // Sequence shards: rows are cut ring * ulysses ways.
  int sequence() const { return ring() * ulysses(); }
  std::int64_t product() const;
  // "tp8 x ulysses4"; axes of degree 1 are left out; "1 device" when all are 1.
  std::string str() const;

  static Degrees make(int tp, int ring, int ulysses, int cfg = 1, int replica = 1);
  auto operator<=>(const Degrees&) const = default;
};

// How K and V of the other sequence shards on the ring axis are reached.
enum class RingMethod : std::uint8_t { kP2p, kAllGather };
std::string_view to_string(RingMethod method);  // "p2p", "allgather"

class Mesh {
 public:
  // dims: each axis once, outermost first. ranks: row-major over dims, ranks[i] = the rank at that place;
  // a permutation of 0..n-1. devices[r] = device id of rank r, all different.
  // Throws InputError when the product of the degrees is not the number of ranks, a rank or device is
  // missing, doubled or out of range.
  Mesh(Degrees degrees, std::vector<Axis> dims, std::vector<int> ranks, std::vector<int> devices);

  // The mesh of a fixed rank order, fastest-varying axis first (engines' "tp, ulysses, ring"); axes not
  // named come last in canonical order. Rank r runs on device r.
  static Mesh from_order(Degrees degrees, const std::vector<Axis>& fastest_first);

  int size() const { return static_cast<int>(ranks_.size()); }
  const Degrees& degrees() const { return degrees_; }
  const std::vector<Axis>& dims() const { return dims_; }
  const std::vector<int>& ranks() const { return ranks_; }
  const std::vector<int>& devices() const { return devices_; }

  int coordinate(int rank, Axis axis) const;
  // Members of the group of `rank` on `axis`, ordered by coordinate (not sorted by rank).
  std::vector<int> group(int rank, Axis axis) const;
  // All groups of an axis, ordered by their place in the grid; each ordered by coordinate.
  std::vector<std::vector<int>> groups(Axis axis) const;
  // The ranks that share all but the given axes with `rank`: the sequence group is
  // {kRing, kUlysses}, ordered ring outermost.
  std::vector<int> group(int rank, const std::vector<Axis>& axes) const;

  bool operator==(const Mesh&) const = default;

 private:
  std::size_t place(const std::array<int, kAxisCount>& coordinates) const;

  Degrees degrees_;
  std::vector<Axis> dims_;
  std::vector<int> ranks_;
  std::vector<int> devices_;
  std::vector<std::array<int, kAxisCount>> coordinates_;  // by rank
};

}  // namespace hpplan
