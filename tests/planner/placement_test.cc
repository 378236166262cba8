#include "planner/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "planner/spec/error.h"
#include "tests/planner/machines.h"

namespace hpplan {
namespace {

using testing::level;
using testing::machine;
using testing::neuron;
using testing::placement;
using Groups = std::vector<std::vector<int>>;

Groups sorted(Groups groups) {
  for (auto& g : groups) std::sort(g.begin(), g.end());
  std::sort(groups.begin(), groups.end());
  return groups;
}

std::vector<int> span(std::initializer_list<std::pair<int, int>> runs) {
  std::vector<int> all;
  for (const auto& [from, to] : runs)
    for (int i = from; i <= to; ++i) all.push_back(i);
  return all;
}

TEST(DigitSpace, FactorsLevelsOutermostFirst) {
  const Topology t = machine(
      "m", {level("node", 6, LinkKind::kNetwork), level("gpu", 8, LinkKind::kSwitch)});
  const DigitSpace space(t, whole(t));
  std::vector<int> radices, weights;
  for (const Digit& d : space.digits()) {
    radices.push_back(d.radix);
    weights.push_back(d.weight);
  }
  EXPECT_EQ(radices, (std::vector<int>{3, 2, 2, 2, 2}));
  EXPECT_EQ(weights, (std::vector<int>{2, 1, 4, 2, 1}));
  const DigitSpace other(t, whole(t), {{2, 3}});
  EXPECT_EQ(other.digits()[0].radix, 2);
  EXPECT_EQ(other.digits()[0].weight, 3);
}

TEST(DigitSpace, GrayLabelsMakeEveryDigitOfARingOfFourALink) {
  const Topology t = neuron(4, 4, 4);
  const DigitSpace space(t, whole(t));
  // col digits: 2, 3.
  EXPECT_EQ(space.line_groups(1u << 2, 1), (Groups{{0, 3}, {1, 2}}));
  EXPECT_EQ(space.line_groups(1u << 3, 1), (Groups{{0, 1}, {3, 2}}));
}

TEST(Placement, TheNeuronEightByEightMeshIsRowsTimesColumns) {
  const Topology t = neuron(4, 4, 4);
  const DigitSpace space(t, whole(t));
  const Placement p = placement("RR TR TT");
  EXPECT_EQ(to_string(t, space, p), "row:RR col:TR core:TT");
  const Mesh mesh = mesh_of(t, space, p);
  EXPECT_EQ(mesh.degrees(), Degrees::make(8, 8, 1));
  EXPECT_EQ(sorted(mesh.groups(Axis::kTp)),
            (Groups{span({{0, 3}, {12, 15}}), span({{4, 11}}), span({{16, 19}, {28, 31}}),
                    span({{20, 27}}), span({{32, 35}, {44, 47}}), span({{36, 43}}),
                    span({{48, 51}, {60, 63}}), span({{52, 59}})}));
  const Groups partner = sorted(mesh.groups(Axis::kRing));
  EXPECT_EQ(partner.front(), (std::vector<int>{0, 4, 16, 20, 32, 36, 48, 52}));
}

TEST(Placement, LevelsWithoutDigitsAreLeftOut) {
  const Topology t = neuron(4, 4, 4);
  Slice slice{{1, 2, 4}};
  const DigitSpace space(t, slice);
  EXPECT_EQ(to_string(t, space, placement("U TT")), "col:U core:TT");
  EXPECT_EQ(mesh_of(t, space, placement("U TT")).devices(), span({{0, 7}}));
}

TEST(Placement, AnIrregularSliceIsOneLevel) {
  const Topology t = neuron(4, 4, 4);
  Slice slice{{4, 4, 4}, 2, 14};
  const DigitSpace space(t, slice);
  EXPECT_EQ(space.devices(), 56);
  EXPECT_EQ(to_string(t, space, placement("TU UU")), "row+col:TU core:UU");
  const Mesh mesh = mesh_of(t, space, placement("TU UU"));
  EXPECT_EQ(mesh.degrees(), Degrees::make(7, 1, 8));
  EXPECT_EQ(mesh.devices(), span({{0, 55}}));
}

TEST(Placement, ScatteredDeviceIdsAreKept) {
  Topology t = machine("m", {level("gpu", 4, LinkKind::kSwitch)});
  t.device_ids = {7, 5, 3, 1};
  const DigitSpace space(t, whole(t));
  const Mesh mesh = mesh_of(t, space, placement("TU"));
  EXPECT_EQ(mesh.devices(), (std::vector<int>{7, 5, 3, 1}));
}

TEST(Placement, RingTurnPermutesTheRingCoordinateAlone) {
  const Topology t = machine("m", {level("gpu", 8, LinkKind::kSwitch)});
  const DigitSpace space(t, whole(t));
  const Placement p = placement("RRT");
  const Mesh mesh = mesh_of(t, space, p, {0, 2, 3, 1});
  EXPECT_EQ(mesh.groups(Axis::kRing), (Groups{{0, 4, 6, 2}, {1, 5, 7, 3}}));
  EXPECT_EQ(sorted(mesh.groups(Axis::kTp)), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
}

// Every placement of odd and even machines: each axis partitions the ranks, and two
// groups of different axes through one rank share that rank alone.
TEST(Placement, EveryMeshIsAPartitionOnEveryAxis) {
  const std::vector<Topology> machines = {
      neuron(4, 4, 2), machine("a", {level("node", 3, LinkKind::kNetwork),
                                     level("gpu", 6, LinkKind::kSwitch)})};
  for (const Topology& t : machines) {
    const DigitSpace space(t, whole(t));
    const std::size_t digits = space.digits().size();
    std::size_t all = 1;
    for (std::size_t i = 0; i < digits; ++i) all *= 3;
    for (std::size_t v = 0; v < all; ++v) {
      Placement p;
      std::size_t rest = v;
      for (std::size_t i = 0; i < digits; ++i, rest /= 3)
        p[kAxes[2 + rest % 3]] |= DigitSet{1} << i;
      const Mesh mesh = mesh_of(t, space, p);
      for (const Axis axis : kAxes) {
        std::set<int> seen;
        for (const auto& g : mesh.groups(axis)) {
          ASSERT_EQ(static_cast<int>(g.size()), mesh.degrees()[axis]);
          seen.insert(g.begin(), g.end());
        }
        ASSERT_EQ(static_cast<int>(seen.size()), mesh.size());
      }
      for (const Axis a : {Axis::kTp, Axis::kRing})
        for (const Axis b : {Axis::kRing, Axis::kUlysses}) {
          if (a == b) continue;
          for (int r = 0; r < mesh.size(); ++r) {
            const auto ga = mesh.group(r, a), gb = mesh.group(r, b);
            int shared = 0;
            for (const int x : ga) shared += std::count(gb.begin(), gb.end(), x) > 0;
            ASSERT_EQ(shared, 1);
          }
        }
    }
  }
}

TEST(Topology, NodesJoinByTheNetworkTheFileKnows) {
  Topology t = machine("box", {level("gpu", 8, LinkKind::kSwitch, 450)});
  EXPECT_THROW(with_nodes(t, 2), InputError);
  EXPECT_EQ(with_nodes(t, 1).devices(), 8);
  t.network = level("node", 1, LinkKind::kNetwork, 400);
  const Topology two = with_nodes(t, 2);
  EXPECT_EQ(two.devices(), 16);
  EXPECT_EQ(two.devices_per_os_node, 8);
  EXPECT_EQ(two.levels.front().kind, LinkKind::kNetwork);
  EXPECT_THROW(with_nodes(t, 0), InputError);
  EXPECT_THROW(with_nodes(t, 1'000'000'000), InputError);
  EXPECT_THROW(with_nodes(two, 2), InputError);
}

// ranks per host come from the machine, never from degrees.
TEST(Topology, BL011RanksPerHostAreTheHostsDevices) {
  Topology t = machine("box", {level("gpu", 8, LinkKind::kSwitch, 450)});
  t.network = level("node", 1, LinkKind::kNetwork, 400);
  const Topology two = with_nodes(t, 2);
  const DigitSpace space(two, whole(two));
  Placement p;
  p[Axis::kTp] = space.all();
  EXPECT_EQ(mesh_of(two, space, p).degrees().tp(), 16);
  EXPECT_EQ(two.devices_per_os_node, 8);
}

// 2 hosts of 4: ranks are numbered host by host, so a tp group of 4 stays on its host.
TEST(Placement, BL009RanksFollowMachineBoundaries) {
  Topology t = machine("box", {level("gpu", 4, LinkKind::kSwitch, 450)});
  t.network = level("node", 1, LinkKind::kNetwork, 100);
  const Topology two = with_nodes(t, 2);
  const DigitSpace space(two, whole(two));
  const Mesh mesh = mesh_of(two, space, placement("U TT"));
  EXPECT_EQ(mesh.groups(Axis::kTp), (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
}

}  // namespace
}  // namespace hpplan
