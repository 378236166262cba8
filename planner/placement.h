// Placements: which digits of a device's coordinates belong to which axis.
//
// Every level size of a topology is factored into primes, so a device becomes a string of digits, outermost
// first (trn2.48xl at LNC=2: row 2.2 | col 2.2 | core 2.2). A placement gives each digit to one axis; an
// axis' degree is the product of its digits and its groups are the devices that differ only in them. Levels
// labelled in Gray code number their members 0,1,3,2, so that on a ring of four every digit is a link.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/spec/mesh.h"
#include "planner/spec/topology.h"

namespace hpplan {

// One bit per digit of a DigitSpace, bit i = digit i (outermost first).
using DigitSet = std::uint32_t;

struct Digit {
  int level = 0;   // index in Topology::levels
  int radix = 2;   // prime
  int weight = 1;  // what one step of this digit adds to the level's label
};

// The devices used, as a product of digits: the whole machine or a slice of it.
class DigitSpace {
 public:
  // taken[l] = how many members of level l are used (first ones; a contiguous aligned run).
  // orders[l] = the order of the level's primes, outermost first; empty: descending.
  DigitSpace(const Topology& topology, std::vector<int> taken, std::vector<std::vector<int>> orders = {});

  const std::vector<Digit>& digits() const { return digits_; }
  const std::vector<int>& taken() const { return taken_; }
  int devices() const { return devices_; }
  DigitSet all() const { return digits_.empty() ? 0 : (DigitSet{1} << digits_.size()) - 1; }
  int degree(DigitSet set) const;
  // Device index (row-major over the whole topology's coordinates, before device_ids renumbering) of a
  // mixed-radix value over all digits, outermost first.
  int device_index(const std::vector<int>& digit_values) const;
  // The groups of an axis that owns `set`: device indices, each group ordered by the axis' coordinate.
  std::vector<std::vector<int>> groups(DigitSet set) const;

 private:
  std::vector<Digit> digits_;
  std::vector<int> taken_;
  std::vector<int> level_stride_;
  std::vector<Labels> labels_;
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
// ring, ulysses, tp.
Mesh mesh_of(const Topology& topology, const DigitSpace& space, const Placement& placement);

}  // namespace hpplan
