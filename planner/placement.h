// Placements: which digits of a device's coordinates belong to which axis.
//
// Every level size of a topology is factored into primes, so a device becomes a string of digits, outermost
// first (trn2.48xl at LNC=2: row 2.2 | col 2.2 | core 2.2). A placement gives each digit to one axis; an
// axis' degree is the product of its digits and its groups are the devices that differ only in them. Levels
// labelled in Gray code number their members 0,1,3,2, so that on a ring of four every digit is a link.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "planner/spec/mesh.h"
#include "planner/spec/topology.h"

namespace hpplan {

// One bit per digit of a DigitSpace, bit i = digit i (outermost first).
using DigitSet = std::uint32_t;

struct Digit {
  int level = 0;   // index in DigitSpace::levels()
  int radix = 2;   // prime
  int weight = 1;  // what one step of this digit adds to the level's label
};

// Which devices are used. taken[l] = members of level l (the first ones, a contiguous run from 0).
// flat_levels > 0: an irregular slice; the outermost flat_levels levels are one level, and flat_count of its
// members are used in row-major order (14 chips of a 4x4 torus); taken of those levels is then not read.
struct Slice {
  std::vector<int> taken;
  int flat_levels = 0;
  int flat_count = 0;
  bool operator==(const Slice&) const = default;
};
Slice whole(const Topology& topology);

// The devices used, as a product of digits: the whole machine or a slice of it.
class DigitSpace {
 public:
  // One level of the space; a flat slice merges several of the topology's into one.
  struct SpaceLevel {
    std::string name;
    int first = 0;    // index in Topology::levels; of a merged level the innermost one
    int count = 1;    // members used
    int stride = 1;   // device indices from one member to the next
    bool gray = false;
    bool merged = false;
  };

  // orders[l] = the order of a space level's primes, outermost first; empty: descending.
  // The slice must lie within the topology (HP_CHECK).
  DigitSpace(const Topology& topology, Slice slice, std::vector<std::vector<int>> orders = {});

  const std::vector<Digit>& digits() const { return digits_; }
  const std::vector<SpaceLevel>& levels() const { return levels_; }
  const Slice& slice() const { return slice_; }
  int devices() const { return devices_; }
  DigitSet all() const { return (DigitSet{1} << digits_.size()) - 1; }
  int degree(DigitSet set) const;
  // Product of the digits of `set` on one space level.
  int degree_at(DigitSet set, int level) const;
  // Device index (row-major over the whole topology's coordinates, before device_ids renumbering) of a
  // mixed-radix value over all digits, outermost first.
  int device_index(const std::vector<int>& digit_values) const;
  // The groups of `set` along one space level alone: positions, each group by coordinate.
  std::vector<std::vector<int>> line_groups(DigitSet set, int level) const;
  // The groups of an axis that owns `set`: device indices, each group ordered by the axis' coordinate.
  std::vector<std::vector<int>> groups(DigitSet set) const;
  // Device indices in use, ascending.
  std::vector<int> device_indices() const;

 private:
  // Where every value of the digits of `set`, outermost first, stands in the labels of all levels, row-major.
  std::vector<int> positions(DigitSet set) const;

  Slice slice_;
  std::vector<SpaceLevel> levels_;
  std::vector<Digit> digits_;
  int devices_ = 1;
};

struct Placement {
  std::array<DigitSet, kAxisCount> of_axis = {};
  DigitSet operator[](Axis a) const { return of_axis[static_cast<std::size_t>(a)]; }
  DigitSet& operator[](Axis a) { return of_axis[static_cast<std::size_t>(a)]; }
  auto operator<=>(const Placement&) const = default;
};

Degrees degrees_of(const DigitSpace& space, const Placement& placement);

// "row:RR col:TR core:TT": a letter a digit, T tp, R ring, U ulysses, C cfg, D replica; levels without
// digits are left out.
std::string to_string(const Topology& topology, const DigitSpace& space, const Placement& placement);

// The explicit mesh: rank i runs on the i-th used device in device-index order; dims are replica, cfg,
// ring, ulysses, tp. ring_turn[i] = the ring coordinate in digit order that stands at place i (a walk over
// links, see Fabric::ring_order); empty: digit order.
Mesh mesh_of(const Topology& topology, const DigitSpace& space, const Placement& placement,
             const std::vector<int>& ring_turn = {});

}  // namespace hpplan
