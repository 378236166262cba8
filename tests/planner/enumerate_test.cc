#include "planner/enumerate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "planner/fabric.h"
#include "tests/planner/machines.h"

namespace hpplan {
namespace {

using testing::level;
using testing::machine;
using testing::neuron;

const std::vector<Axis> kThree = {Axis::kRing, Axis::kUlysses, Axis::kTp};

int classes_of(const Topology& t) {
  const DigitSpace space(t, whole(t));
  int n = 0;
  for_each_class(kThree, digit_classes(t, space), [&](const Placement&) { ++n; });
  return n;
}

int placements_of(const Topology& t) {
  const DigitSpace space(t, whole(t));
  int n = 0;
  for_each_placement(space, kThree, [&](const Placement&) { ++n; });
  return n;
}

TEST(Enumerate, SymmetryLeaves90Of729OnTheGrayTorus) {
  EXPECT_EQ(placements_of(neuron(4, 4, 4)), 729);
  EXPECT_EQ(classes_of(neuron(4, 4, 4)), 90);
}

TEST(Enumerate, SymmetryLeaves550Of531441On512NodesOf8) {
  const Topology t = machine("c", {level("node", 512, LinkKind::kNetwork, 400),
                                   level("gpu", 8, LinkKind::kSwitch, 450)});
  EXPECT_EQ(placements_of(t), 531441);
  EXPECT_EQ(classes_of(t), 550);
}

// A class has one representative, and every placement belongs to the class of one.
TEST(Enumerate, ClassesCoverAllPlacements) {
  for (const Topology& t :
       {neuron(4, 4, 2), machine("c", {level("node", 6, LinkKind::kNetwork, 400),
                                       level("gpu", 4, LinkKind::kSwitch, 450)})}) {
    const DigitSpace space(t, whole(t));
    const auto classes = digit_classes(t, space);
    std::multiset<std::vector<int>> representatives;
    for_each_class(kThree, classes, [&](const Placement& p) {
      EXPECT_EQ(degrees_of(space, p).product(), space.devices());
      representatives.insert(class_key(classes, p));
    });
    std::set<std::vector<int>> all;
    for_each_placement(space, kThree,
                       [&](const Placement& p) { all.insert(class_key(classes, p)); });
    EXPECT_EQ(all.size(), representatives.size());
    EXPECT_TRUE(std::equal(all.begin(), all.end(), representatives.begin()));
  }
}

// Placements of one class are alike to the fabric: equally legal, equally loaded.
TEST(Enumerate, PlacementsOfAClassCostTheSame) {
  const std::vector<Topology> machines = {
      neuron(4, 4, 2),
      machine("pcie", {level("socket", 2, LinkKind::kPcie, 35),
                       level("switch", 2, LinkKind::kPcie, 30),
                       level("gpu", 4, LinkKind::kPcie, 28)}),
      machine("mesh", {level("node", 4, LinkKind::kNetwork, 400),
                       level("gpu", 8, LinkKind::kFullMesh, 64)})};
  for (const Topology& t : machines) {
    const Fabric fabric(t, testing::trn2_rates());
    const DigitSpace space(t, whole(t));
    const auto classes = digit_classes(t, space);
    std::map<std::vector<int>, std::vector<double>> known;
    for_each_placement(space, kThree, [&](const Placement& p) {
      std::vector<double> cost;
      for (const Axis axis : kThree) {
        bool ok = true;
        for (const auto& g : space.groups(p[axis])) ok = ok && fabric.routable(g);
        cost.push_back(ok);
        for (const Collective op :
             {Collective::kAllReduce, Collective::kAllToAll, Collective::kShift})
          cost.push_back(fabric.path(op, space, p[axis]).contention);
      }
      const auto [first, fresh] = known.emplace(class_key(classes, p), cost);
      for (std::size_t i = 0; i < cost.size(); ++i)
        ASSERT_NEAR(first->second[i], cost[i], 1e-9)
            << t.name << ' ' << to_string(t, space, p);
    });
  }
}

TEST(Enumerate, EveryDigitOfTheGrayTorusIsRoutable) {
  const Topology t = neuron(4, 4, 4);
  Topology binary = t;
  for (Level& l : binary.levels) l.labels = Labels::kBinary;
  const Fabric fabric(t, {});
  const auto routable = [&](const Topology& of) {
    const DigitSpace space(of, whole(of));
    int n = 0;
    for_each_placement(space, kThree, [&](const Placement& p) {
      bool ok = true;
      for (const Axis axis : kThree)
        for (const auto& g : space.groups(p[axis])) ok = ok && fabric.routable(g);
      n += ok;
    });
    return n;
  };
  EXPECT_EQ(routable(t), 729);
  EXPECT_EQ(routable(binary), 81);
}

TEST(Enumerate, SlicesOfATorusAreConsecutiveCores) {
  const Topology t = neuron(4, 4, 4);
  for (int n = 1; n <= 64; ++n) {
    const auto slices = slices_of(t, n);
    ASSERT_FALSE(slices.empty()) << n;
    for (const Slice& s : slices) {
      const auto used = DigitSpace(t, s).device_indices();
      ASSERT_EQ(static_cast<int>(used.size()), n);
      EXPECT_EQ(used.front(), 0);
      EXPECT_EQ(used.back(), n - 1) << n;
    }
  }
  // 14 chips of 4 cores.
  const auto flat = slices_of(t, 56);
  ASSERT_EQ(flat.size(), 1u);
  EXPECT_EQ(flat[0].flat_levels, 2);
  EXPECT_EQ(flat[0].flat_count, 14);
}

TEST(Enumerate, SlicesOfAClusterAreEverySharing) {
  const Topology t = machine("c", {level("node", 4, LinkKind::kNetwork, 400),
                                   level("gpu", 8, LinkKind::kSwitch, 450)});
  const auto slices = slices_of(t, 8);
  EXPECT_EQ(slices.size(), 3u);  // 1x8, 2x4, 4x2
  EXPECT_EQ(slices_of(t, 31).size(), 1u);
  EXPECT_EQ(slices_of(t, 31)[0].flat_count, 31);
}

TEST(Enumerate, UsefulCountsHoldTheMachineAndEvenShares) {
  const auto torus = useful_counts(neuron(4, 4, 4), 56);
  EXPECT_EQ(torus, (std::vector<int>{1, 2, 4, 8, 16, 28, 32, 56, 64}));
  const auto rack =
      useful_counts(machine("r", {level("gpu", 72, LinkKind::kSwitch, 900)}), 40);
  EXPECT_TRUE(std::count(rack.begin(), rack.end(), 72));
  EXPECT_TRUE(std::count(rack.begin(), rack.end(), 40));
  EXPECT_TRUE(std::count(rack.begin(), rack.end(), 36));
}

TEST(Enumerate, FactorizationsAreAllAndOnce) {
  const auto all = factorizations(56, kThree);
  std::set<Degrees> seen(all.begin(), all.end());
  EXPECT_EQ(seen.size(), all.size());
  int expected = 0;
  for (int t = 1; t <= 56; ++t)
    for (int r = 1; r <= 56; ++r)
      for (int u = 1; u <= 56; ++u) expected += t * r * u == 56;
  EXPECT_EQ(static_cast<int>(all.size()), expected);
  EXPECT_EQ(factorizations(61, kThree).size(), 3u);
}

TEST(Enumerate, BothOrdersOfUnequalPrimesOnATorusLevel) {
  const Topology t = machine("t", {level("x", 6, LinkKind::kRing, 45)});
  EXPECT_EQ(spaces_of(t, whole(t)).size(), 2u);
  const Topology s = machine("s", {level("x", 6, LinkKind::kSwitch, 45)});
  EXPECT_EQ(spaces_of(s, whole(s)).size(), 1u);
}

}  // namespace
}  // namespace hpplan
