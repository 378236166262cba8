// What there is to choose from: device counts, slices of the machine, and placements up to the machine's
// symmetry. Order is fixed: the same question gives the same list.
//
// Two digits are interchangeable when swapping them is a symmetry of the machine: equal primes of one level
// (members of a switch are alike), and all digits of Gray-labelled rings with equal links (a 4x4 torus is a
// 4-cube). Placements that differ by such swaps cost the same and are one class; what an eager all-to-all
// accepts is not symmetric, so there all placements are asked and the first legal one stands for its class.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "planner/placement.h"
#include "planner/spec/topology.h"

namespace hpplan {

// Device counts worth planning for, ascending: every count up to 16 (Neuron: powers of two, as jobs are granted), the
// whole machine halved again and again, whole chips, nodes and rows where they divide the machine, are a
// multiple of 8, or share the heads out evenly (56 of 64 for 56 heads).
std::vector<int> useful_counts(const Topology& topology, int heads);

// The slices of exactly so many devices: how many of each level; where no such product exists, a flat run of the
// outer levels' members (14 chips x 4 cores). Neuron jobs are runs of consecutive cores. Never empty for
// 1 <= devices <= topology.devices().
std::vector<Slice> slices_of(const Topology& topology, int devices);

// Every way to order the primes of the space's levels that can give different groups: one per order of a level
// with unequal primes.
std::vector<DigitSpace> spaces_of(const Topology& topology, const Slice& slice);

// Class of interchangeable digits, by digit.
std::vector<int> digit_classes(const Topology& topology, const DigitSpace& space);

// All placements over `axes`, or one per class, outer digits to the axis that comes first in kAxes. The
// placement is valid during the call.
void for_each_placement(const DigitSpace& space, const std::vector<Axis>& axes,
                        const std::function<void(const Placement&)>& visit);
void for_each_class(const std::vector<Axis>& axes, const std::vector<int>& classes,
                    const std::function<void(const Placement&)>& visit);

// Equal for placements of one class.
std::vector<int> class_key(const std::vector<int>& classes, const Placement& placement);

// Every ordered way to write n as a product of degrees over `axes`.
std::vector<Degrees> factorizations(int n, const std::vector<Axis>& axes);

}  // namespace hpplan
