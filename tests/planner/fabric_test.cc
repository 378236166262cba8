#include "planner/fabric.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/planner/machines.h"

namespace hpplan {
namespace {

using testing::curve;
using testing::level;
using testing::machine;
using testing::neuron;
using testing::placement;
using Groups = std::vector<std::vector<int>>;

std::vector<int> strided(int first, int n, int step) {
  std::vector<int> g;
  for (int i = 0; i < n; ++i) g.push_back(first + i * step);
  return g;
}

// Groups of an axis of extent n whose neighbours are `step` ranks apart, over `world`
// ranks.
Groups partition(int world, int n, int step) {
  Groups groups;
  for (int block = 0; block < world; block += n * step)
    for (int i = 0; i < step; ++i) groups.push_back(strided(block + i, n, step));
  return groups;
}

class Trn2 : public ::testing::Test {
 protected:
  bool works(const Fabric& f, const Groups& groups) {
    return std::all_of(groups.begin(), groups.end(),
                       [&](const auto& g) { return f.routable(g); });
  }
  // tp contiguous, the other axis strided.
  bool works(const Fabric& f, int tp, int other) {
    return works(f, partition(tp * other, tp, 1)) &&
           works(f, partition(tp * other, other, tp));
  }
  const Fabric lnc2{neuron(4, 4, 4), testing::trn2_rates()};
  const Fabric lnc1{neuron(4, 4, 8), testing::trn2_rates()};
};

TEST_F(Trn2, PublishedGroupsWorkOrNot) {
  EXPECT_TRUE(works(lnc2, 64, 1));
  EXPECT_TRUE(works(lnc2, 4, 16));
  EXPECT_TRUE(works(lnc2, 16, 4));
  EXPECT_FALSE(works(lnc2, 32, 2));
  EXPECT_FALSE(works(lnc2, 8, 8));
  EXPECT_TRUE(works(lnc2, partition(64, 4, 1)) && works(lnc2, partition(64, 4, 4)) &&
              works(lnc2, partition(64, 4, 16)));
  EXPECT_TRUE(works(lnc1, 128, 1));
  EXPECT_TRUE(works(lnc1, 32, 4));
  EXPECT_TRUE(works(lnc1, 8, 16));
  EXPECT_TRUE(works(lnc1, 4, 32));
  EXPECT_FALSE(works(lnc1, 64, 2));
  EXPECT_FALSE(works(lnc1, 16, 8));
}

TEST_F(Trn2, SpecialOrdersWork) {
  // 32 x 2: tp {0-15, 48-63} and {16-47}; pairs 0 with 16, 48 with 32.
  Groups tp(2), pairs;
  for (int i = 0; i < 16; ++i) {
    tp[0].push_back(i);
    tp[1].push_back(16 + i);
    pairs.push_back({i, 16 + i});
  }
  for (int i = 0; i < 16; ++i) {
    tp[0].push_back(48 + i);
    tp[1].push_back(32 + i);
    pairs.push_back({48 + i, 32 + i});
  }
  EXPECT_TRUE(works(lnc2, tp));
  EXPECT_TRUE(works(lnc2, pairs));
  // 8 x 8, as AWS ships it.
  const DigitSpace space(neuron(4, 4, 4), whole(neuron(4, 4, 4)));
  const Placement p = placement("RR TR TT");
  EXPECT_TRUE(works(lnc2, space.groups(p[Axis::kTp])));
  EXPECT_TRUE(works(lnc2, space.groups(p[Axis::kRing])));
}

TEST_F(Trn2, UnequalSharesOfChipsAreRefused) {
  EXPECT_FALSE(lnc2.routable({0, 1, 4}));
  EXPECT_FALSE(lnc2.routable({0, 1, 4, 6}));
  EXPECT_TRUE(lnc2.routable({0, 4}));
  EXPECT_TRUE(lnc2.routable({0, 12}));  // the wrap link
  EXPECT_TRUE(lnc2.routable({0, 4, 8, 12}));
  EXPECT_FALSE(lnc2.routable(strided(0, 3, 4)));
}

struct Row {
  int world, ulysses, ring, tp;
  bool snake;  // only with a reordered ring
};

// rank = u + U*(r + R*t), ulysses eager, powers of two.
TEST_F(Trn2, LegalDegreesOfTheUlyssesInnermostMesh) {
  const std::vector<Row> legal = {
      {4, 1, 1, 4, false},   {4, 1, 2, 2, false},   {4, 1, 4, 1, false},
      {4, 4, 1, 1, false},   {8, 1, 1, 8, false},   {8, 1, 2, 4, false},
      {8, 1, 4, 2, false},   {8, 1, 8, 1, false},   {8, 4, 1, 2, false},
      {8, 4, 2, 1, false},   {8, 8, 1, 1, false},   {16, 1, 1, 16, false},
      {16, 1, 2, 8, false},  {16, 1, 4, 4, false},  {16, 1, 16, 1, false},
      {16, 4, 1, 4, false},  {16, 4, 4, 1, false},  {16, 16, 1, 1, false},
      {32, 1, 1, 32, false}, {32, 1, 2, 16, false}, {32, 1, 4, 8, false},
      {32, 1, 16, 2, false}, {32, 4, 1, 8, false},  {32, 4, 4, 2, false},
      {32, 16, 1, 2, false}, {32, 16, 2, 1, false}, {32, 32, 1, 1, false},
      {32, 1, 32, 1, true},  {32, 4, 8, 1, true},   {64, 1, 1, 64, false},
      {64, 1, 2, 32, false}, {64, 1, 4, 16, false}, {64, 1, 16, 4, false},
      {64, 4, 1, 16, false}, {64, 4, 4, 4, false},  {64, 16, 1, 4, false},
      {64, 16, 4, 1, false}, {64, 64, 1, 1, false}, {64, 1, 64, 1, true},
      {64, 4, 16, 1, true}};
  for (int world = 4; world <= 64; world *= 2)
    for (int u = 1; u <= world; u *= 2)
      for (int r = 1; u * r <= world; r *= 2) {
        const int t = world / u / r;
        const Groups ulysses = partition(world, u, 1), tp = partition(world, t, u * r);
        Groups ring = partition(world, r, u);
        const auto refused = [&](Collective op, Axis axis, const Groups& g) {
          return lnc2.refuse(op, axis, g, FabricRules::kEager, world).has_value();
        };
        bool ok = !refused(Collective::kAllToAll, Axis::kUlysses, ulysses) &&
                  !refused(Collective::kAllReduce, Axis::kTp, tp);
        const bool plain = ok && !refused(Collective::kShift, Axis::kRing, ring);
        for (auto& g : ring) {
          const auto walk = lnc2.ring_order(g);
          ok = ok && walk.has_value();
          if (walk) g = *walk;
        }
        ok = ok && !refused(Collective::kShift, Axis::kRing, ring);
        const auto row = std::find_if(legal.begin(), legal.end(), [&](const Row& x) {
          return x.world == world && x.ulysses == u && x.ring == r && x.tp == t;
        });
        EXPECT_EQ(ok, row != legal.end()) << world << ": " << u << ',' << r << ',' << t;
        if (row != legal.end()) {
          EXPECT_EQ(plain, !row->snake) << world << ": " << u << ',' << r << ',' << t;
        }
      }
}

struct Order {
  int cores, inner, outer;
  bool inner_first,
      outer_first;  // legal with the first axis fastest, with the second fastest
};

TEST_F(Trn2, OrdersOfTwoAxes) {
  for (const Order& o : std::vector<Order>{{16, 8, 2, false, true},
                                           {32, 8, 4, false, true},
                                           {16, 4, 4, true, true},
                                           {32, 2, 16, true, true},
                                           {32, 4, 8, true, false},
                                           {64, 4, 16, true, true},
                                           {64, 2, 32, true, false},
                                           {64, 8, 8, false, false},
                                           {56, 8, 7, false, false}}) {
    EXPECT_EQ(works(lnc2, o.inner, o.outer), o.inner_first) << o.cores << ' ' << o.inner;
    EXPECT_EQ(works(lnc2, o.outer, o.inner), o.outer_first) << o.cores << ' ' << o.inner;
  }
}

TEST_F(Trn2, BL002EagerAllToAllWantsAlignedRuns) {
  // ulysses 4 outermost of 8 ranks, tp innermost: stride 2.
  const Groups strided_groups = partition(16, 4, 4), runs = partition(16, 4, 1);
  const auto no = lnc2.refuse(Collective::kAllToAll, Axis::kUlysses, strided_groups,
                              FabricRules::kEager, 16);
  ASSERT_TRUE(no.has_value());
  EXPECT_EQ(no->code, "fabric-aligned");
  EXPECT_NE(no->suggestion.find("fastest-varying"), std::string::npos) << no->suggestion;
  EXPECT_FALSE(
      lnc2.refuse(Collective::kAllToAll, Axis::kUlysses, runs, FabricRules::kEager, 16));
  EXPECT_FALSE(lnc2.refuse(Collective::kAllToAll, Axis::kUlysses, strided_groups,
                           FabricRules::kCompiled, 16));
  EXPECT_FALSE(lnc2.refuse(Collective::kAllReduce, Axis::kTp, strided_groups,
                           FabricRules::kEager, 16));
  // A switch takes either.
  const Fabric nvswitch(machine("s", {level("gpu", 16, LinkKind::kSwitch)}), {});
  EXPECT_FALSE(nvswitch.refuse(Collective::kAllToAll, Axis::kUlysses, strided_groups,
                               FabricRules::kNotApplicable, 16));
}

TEST_F(Trn2, EagerSizesAndStarts) {
  const auto size = lnc2.refuse(Collective::kAllToAll, Axis::kUlysses, partition(8, 2, 1),
                                FabricRules::kEager, 8);
  ASSERT_TRUE(size);
  EXPECT_NE(size->message.find("4, 8, 16"), std::string::npos) << size->message;
  // As in the 8x8 mesh of AWS: a run, but no multiple of 8.
  const Groups shipped = {strided(4, 8, 1), {0, 1, 2, 3, 12, 13, 14, 15}};
  const auto start = lnc2.refuse(Collective::kAllToAll, Axis::kUlysses, shipped,
                                 FabricRules::kEager, 16);
  ASSERT_TRUE(start);
  EXPECT_EQ(start->code, "fabric-aligned");
  EXPECT_NE(start->message.find("starts at 4"), std::string::npos) << start->message;
}

TEST(Trn1, BL012StrideTwoOfEightIsRefusedWithTheOrderThatWorks) {
  const Fabric f(neuron(4, 4, 2, GroupRule::kNeuronTrn1), {});
  const auto no =
      f.refuse(Collective::kAllReduce, Axis::kTp, {strided(0, 8, 2), strided(1, 8, 2)},
               FabricRules::kNotApplicable, 16);
  ASSERT_TRUE(no);
  EXPECT_EQ(no->code, "fabric-routable");
  EXPECT_NE(no->suggestion.find("make tp the fastest-varying axis"), std::string::npos)
      << no->suggestion;
  EXPECT_TRUE(f.routable({0, 8, 16, 24}));  // a torus column
  EXPECT_TRUE(f.routable(strided(0, 8, 1)));
}

TEST_F(Trn2, RefusalNamesChipsAndTheNearestLegalGroups) {
  const auto no = lnc2.refuse(Collective::kAllReduce, Axis::kTp, partition(64, 2, 32),
                              FabricRules::kCompiled, 64);
  ASSERT_TRUE(no);
  EXPECT_EQ(no->message,
            "tp 2: the group [0,32] is not routable: chips 0 and 8 have no link");
  EXPECT_EQ(no->suggestion,
            "make tp the fastest-varying axis: groups [0,1] [2,3] [4,5] ...");
}

TEST_F(Trn2, StridedSiblingsShareLinks) {
  // 4 sibling groups of one core a chip over 8 chips: every link carries all four.
  const AxisPath strided_tp = lnc2.path(Collective::kAllReduce, partition(32, 8, 4));
  EXPECT_NEAR(strided_tp.contention, 4, 1e-9);
  EXPECT_EQ(strided_tp.n_reference, 8);
  EXPECT_NEAR(lnc2.path(Collective::kAllReduce, partition(64, 8, 1)).contention, 1, 1e-9);
}

// Of chips in a row, a column, a block and the whole torus the busiest link carries half
// of a chip's bytes.
TEST_F(Trn2, AllToAllPutsHalfOfAChipsBytesOnTheBusiestLink) {
  FabricRates links;
  links.link = BytesPerSecond(128e9);
  const Fabric f(neuron(4, 4, 4), links);
  for (const int n : {8, 16, 32, 64}) {
    // 4 ranks a chip, n/(n-1) since the own share does not travel.
    const double expected = 128e9 / (4 * 0.5 * n / (n - 1));
    EXPECT_NEAR(f.path(Collective::kAllToAll, partition(64, n, 1)).bandwidth.value,
                expected, 1e-3 * expected)
        << n;
  }
}

std::vector<Topology> assorted() {
  Topology pcie = machine("pcie", {level("socket", 2, LinkKind::kPcie, 35),
                                   level("switch", 2, LinkKind::kPcie, 30),
                                   level("gpu", 2, LinkKind::kPcie, 28)});
  Topology bounce = pcie;
  bounce.peer_access = PeerAccess::kNone;
  Topology cluster = machine("cluster", {level("node", 4, LinkKind::kNetwork, 400),
                                         level("gpu", 8, LinkKind::kSwitch, 450)});
  Topology one_nic = cluster, two_nics = cluster;
  one_nic.levels[0].nics = 1;
  two_nics.levels[0].nics = 2;
  Topology mesh = machine("mesh", {level("node", 2, LinkKind::kNetwork, 400),
                                   level("gpu", 8, LinkKind::kFullMesh, 64)});
  Topology bridges = machine("bridges", {level("pair", 2, LinkKind::kPcie, 31),
                                         level("gpu", 2, LinkKind::kBridge, 300)});
  Topology tpu = machine("tpu", {level("row", 8, LinkKind::kRing, 45),
                                 level("col", 4, LinkKind::kRing, 45)});
  tpu.group_rule = GroupRule::kTpuTorus;
  return {pcie, bounce, cluster, one_nic, two_nics, mesh, bridges, tpu, neuron(4, 4, 4)};
}

TEST(Fabric, ClosedFormsAgreeWithRoutingEveryByte) {
  FabricRates rates;
  rates.host = BytesPerSecond(11e9);
  rates.curves = {curve(Collective::kAllReduce, 2, 10, 100),
                  curve(Collective::kAllToAll, 2, 10, 90)};
  for (const Topology& t : assorted()) {
    const Fabric f(t, rates);
    const DigitSpace space(t, whole(t));
    for (DigitSet set = 1; set <= space.all(); ++set)
      for (const Collective op :
           {Collective::kAllToAll, Collective::kAllReduce, Collective::kShift}) {
        auto groups = space.groups(set);
        const auto turn = f.ring_turn(space, set);
        if (op == Collective::kShift && !turn.empty())
          for (auto& g : groups) {
            const auto old = g;
            for (std::size_t i = 0; i < g.size(); ++i) g[i] = old[turn[i]];
          }
        const AxisPath fast = f.path(op, space, set), slow = f.path(op, groups);
        EXPECT_NEAR(fast.contention, slow.contention, 1e-9 * slow.contention)
            << t.name << ' ' << to_string(op) << ' ' << set;
        EXPECT_EQ(fast.crosses_network, slow.crosses_network);
        EXPECT_EQ(fast.latency, slow.latency);
      }
  }
}

TEST(Fabric, WhatIsSentStraightToEveryPeerLoadsALinkLikeAnAllToAll) {
  FabricRates ring, direct;
  ring.curves = direct.curves = {curve(Collective::kAllReduce, 2, 10, 100),
                                 curve(Collective::kAllToAll, 2, 10, 100)};
  direct.direct = {Collective::kAllReduce};
  Topology t = machine("hosts", {level("host", 2, LinkKind::kNetwork, 1),
                                 level("core", 4, LinkKind::kShared)});
  t.levels[0].nics = 1;
  const auto rate = [&](const FabricRates& rates, Collective op) {
    return Fabric(t, rates).path(op, partition(8, 8, 1)).bandwidth.value;
  };
  // Round the ring one byte in eight crosses; straight, 4 of 7 go from each of 4 ranks.
  EXPECT_NEAR(rate(ring, Collective::kAllReduce), 1e9, 1);
  EXPECT_NEAR(rate(direct, Collective::kAllReduce), 1e9 / 4 * 7 / 4, 1);
  EXPECT_EQ(rate(direct, Collective::kAllReduce), rate(ring, Collective::kAllToAll));
}

TEST(Fabric, ACurveOfOneHostDoesNotHideTheLinkBetweenTwo) {
  FabricRates rates;
  rates.curves = {curve(Collective::kAllToAll, 2, 10, 100),
                  curve(Collective::kAllToAll, 8, 10, 100)};
  Topology t = machine("hosts", {level("host", 2, LinkKind::kNetwork, 1),
                                 level("core", 4, LinkKind::kShared)});
  t.levels[0].nics = 1;
  const AxisPath path = Fabric(t, rates).path(Collective::kAllToAll, partition(8, 8, 1));
  EXPECT_EQ(path.n_reference, 8);
  // 100 GB/s in one host; 16 of 56 pairs each way over a link of 1 GB/s.
  EXPECT_NEAR(path.contention, 100 * 4 * 4.0 / 7, 1e-6);
}

TEST(Fabric, CrossingNodesIsAsFastAsTheNics) {
  FabricRates rates;
  rates.network = BytesPerSecond(45e9);
  rates.curves = {curve(Collective::kAllReduce, 8, 16, 510),
                  curve(Collective::kAllToAll, 8, 9, 337)};
  const Topology t = machine("c", {level("node", 2, LinkKind::kNetwork, 400),
                                   level("gpu", 8, LinkKind::kSwitch, 450)});
  const Fabric f(t, rates);
  // One rank of each node a group: a NIC each.
  EXPECT_NEAR(f.path(Collective::kAllReduce, partition(16, 2, 8)).bandwidth.value, 45e9,
              1);
  // All 16: the ring leaves through 8 NICs; 8/15 of an all-to-all leaves through each
  // rank's own.
  EXPECT_NEAR(f.path(Collective::kAllReduce, partition(16, 16, 1)).bandwidth.value, 360e9,
              1);
  EXPECT_NEAR(f.path(Collective::kAllToAll, partition(16, 16, 1)).bandwidth.value,
              45e9 * 15 / 8, 1);
  // A send has one NIC.
  EXPECT_NEAR(f.path(Collective::kShift, partition(16, 16, 1)).bandwidth.value, 45e9, 1);
}

TEST(Fabric, OneNicCarriesOneSendAtFullRateAndSharesItAmongMany) {
  FabricRates rates;
  rates.curves = {curve(Collective::kAllReduce, 8, 16, 510),
                  curve(Collective::kAllToAll, 8, 9, 337),
                  curve(Collective::kShift, 2, 9, 337)};
  Topology t = machine("c", {level("node", 2, LinkKind::kNetwork, 80),
                             level("gpu", 8, LinkKind::kSwitch, 450)});
  const auto rate = [&](Collective op, int size, int stride) {
    return Fabric(t, rates).path(op, partition(16, size, stride)).bandwidth.value;
  };
  EXPECT_NEAR(rate(Collective::kShift, 16, 1), 10e9, 1);  // by the sender's own NIC
  t.levels[0].nics = 1;
  EXPECT_NEAR(rate(Collective::kShift, 16, 1), 80e9, 1);
  EXPECT_NEAR(rate(Collective::kShift, 2, 8), 10e9, 1);  // eight senders
  EXPECT_NEAR(rate(Collective::kAllReduce, 16, 1), 80e9, 1);
  EXPECT_NEAR(rate(Collective::kAllToAll, 16, 1), 10e9 * 15 / 8, 1);
  t.levels[0].nics = 4;
  EXPECT_NEAR(rate(Collective::kShift, 16, 1), 20e9, 1);
  EXPECT_NEAR(rate(Collective::kShift, 2, 8), 10e9, 1);
}

TEST(Fabric, SmallGroupsOfAFullMeshHaveFewLinks) {
  FabricRates rates;
  rates.link = BytesPerSecond(48e9);
  const Fabric f(machine("m", {level("gpu", 8, LinkKind::kFullMesh, 64)}), rates);
  EXPECT_NEAR(f.path(Collective::kAllReduce, partition(8, 2, 1)).bandwidth.value, 48e9,
              1);
  EXPECT_NEAR(f.path(Collective::kAllReduce, partition(8, 4, 2)).bandwidth.value, 144e9,
              1);
  EXPECT_NEAR(f.path(Collective::kAllReduce, partition(8, 8, 1)).bandwidth.value, 336e9,
              1);
}

TEST(Fabric, BL155BridgedPairsAreNotAFullyConnectedBox) {
  const Topology t = machine("b", {level("pair", 2, LinkKind::kPcie, 31),
                                   level("gpu", 2, LinkKind::kBridge, 300)});
  FabricRates rates;
  rates.device = BytesPerSecond(31e9);
  const Fabric f(t, rates);
  EXPECT_NEAR(f.path(Collective::kAllToAll, {{0, 1}, {2, 3}}).bandwidth.value, 300e9, 1);
  EXPECT_LT(f.path(Collective::kAllToAll, {{0, 2}, {1, 3}}).bandwidth.value, 32e9);
  EXPECT_LT(f.path(Collective::kAllToAll, {{0, 1, 2, 3}}).bandwidth.value, 47e9);
}

// Without peer access bytes go through host memory: a pair under one switch writes and
// reads there, a pair on two sockets loads each socket half as much.
TEST(Fabric, BL157CloserIsNotFasterWithoutPeerAccess) {
  Topology t = machine(
      "b", {level("socket", 2, LinkKind::kPcie), level("gpu", 2, LinkKind::kPcie)});
  t.peer_access = PeerAccess::kNone;
  FabricRates rates;
  rates.host = BytesPerSecond(11e9);
  const Fabric f(t, rates);
  const double near = f.path(Collective::kAllReduce, {{2, 3}}).bandwidth.value;
  const double far = f.path(Collective::kAllReduce, {{0, 3}}).bandwidth.value;
  EXPECT_NEAR(far / near, 2, 1e-9);
}

// Faster inside a host than between hosts is a matter of the rates given.
TEST(Fabric, BL167BetweenHostsMayBeFaster) {
  Topology t = machine("c", {level("host", 2, LinkKind::kNetwork, 25),
                             level("gpu", 2, LinkKind::kPcie, 3)});
  const Fabric f(t, {});
  EXPECT_GT(f.path(Collective::kAllReduce, {{0, 2}, {1, 3}}).bandwidth.value,
            f.path(Collective::kAllReduce, {{0, 1}, {2, 3}}).bandwidth.value);
}

TEST(Fabric, CubeMeshTrafficFollowsItsLinks) {
  Topology t = machine("dgx1", {level("gpu", 4, LinkKind::kGraph)});
  const auto link = [&](int a, int b, double gbs) {
    t.links.push_back({a, b, BytesPerSecond(gbs * 1e9)});
  };
  link(0, 1, 25), link(1, 2, 50), link(2, 3, 25), link(0, 3, 50);
  const Fabric f(t, {});
  const auto ring = f.ring_order({0, 1, 2, 3});
  ASSERT_TRUE(ring);
  EXPECT_NEAR(f.path(Collective::kShift, {*ring}).bandwidth.value, 25e9, 1);
  EXPECT_FALSE(f.ring_order({0, 1, 2}));  // no closed walk
}

TEST(Fabric, RingSearchGivesUpWithinItsBudget) {
  // One link joins the cliques: no ring, and a search for it would not end.
  Topology t = machine("cliques", {level("gpu", 16, LinkKind::kGraph)});
  for (int half = 0; half < 16; half += 8)
    for (int a = 0; a < 8; ++a)
      for (int b = a + 1; b < 8; ++b)
        t.links.push_back({half + a, half + b, BytesPerSecond(25e9)});
  t.links.push_back({0, 8, BytesPerSecond(25e9)});
  std::vector<int> all(16);
  std::iota(all.begin(), all.end(), 0);
  bool exhausted = true;
  EXPECT_FALSE(Fabric(t, {}).ring_order(all, &exhausted));
  EXPECT_FALSE(exhausted);  // the cut vertex says no
  t.links.push_back({1, 9, BytesPerSecond(25e9)});
  EXPECT_TRUE(Fabric(t, {}).ring_order(all, &exhausted));
}

TEST(Fabric, SnakeOrderOnTheWholeTorus) {
  const Fabric f(neuron(4, 4, 4), testing::trn2_rates());
  std::vector<int> all(64);
  std::iota(all.begin(), all.end(), 0);
  const auto ring = f.ring_order(all);
  ASSERT_TRUE(ring);
  EXPECT_TRUE(
      f.refuse(Collective::kShift, Axis::kRing, {all}, FabricRules::kCompiled, 64));
  EXPECT_FALSE(
      f.refuse(Collective::kShift, Axis::kRing, {*ring}, FabricRules::kCompiled, 64));
}

TEST(Fabric, ShortSlicesOfATpuHaveNoWrapLink) {
  Topology t = machine("v5e", {level("row", 16, LinkKind::kRing, 45),
                               level("col", 16, LinkKind::kRing, 45)});
  t.group_rule = GroupRule::kTpuTorus;
  const Fabric f(t, {});
  Slice slice{{1, 8}};
  const DigitSpace part(t, slice);
  slice.taken = {1, 16};
  const DigitSpace line(t, slice);
  // 8 in a line: the middle link carries 4 x 4 / 7; 16 in a ring: 32/15 of a link's
  // worth.
  EXPECT_NEAR(f.path(Collective::kAllToAll, part, part.all()).bandwidth.value,
              45e9 * 7 / 16, 1);
  EXPECT_NEAR(f.path(Collective::kAllToAll, line, line.all()).bandwidth.value,
              45e9 * 15 / 32, 1);
}

}  // namespace
}  // namespace hpplan
