// check_layout: orders, rank grids and groups from files, and what is wrong with them.
#include "planner/check.h"

#include <gtest/gtest.h>

#include "planner/spec/error.h"
#include "tests/planner/rules_fixture.h"

namespace hpplan::testing {
namespace {

using Codes = std::vector<std::string>;
using Ints = std::vector<int>;

constexpr std::int64_t kAnyMlp = 40320;

Problem with_fabric(Problem p) {
  p.fabric = std::make_shared<const Fabric>(p.topology, p.fabric_rates);
  p.topology.device_memory = Bytes(1e15);
  p.device.peak_bf16 = FlopsPerSecond(1e15);
  p.device.memory_bandwidth = BytesPerSecond(1e12);
  return p;
}

Problem on_switch(const std::string& engine, int devices, int heads = 24) {
  return with_fabric(problem_of(dit(heads, kAnyMlp), engine, nvswitch(devices)));
}

Problem on_trn2(const std::string& engine, FabricRules rules) {
  Problem p = with_fabric(problem_of(minimax_h3(), engine, trn2(), 37739));
  p.fabric_rules = rules;
  return p;
}

CheckRequest degrees(int tp, int ring, int ulysses,
                     std::optional<RingMethod> method = std::nullopt) {
  CheckRequest request;
  request.degrees = Degrees::make(tp, ring, ulysses);
  request.ring_method = method;
  return request;
}

CheckRequest with_ranks(CheckRequest request, const std::string& text) {
  request.ranks = parse_ranks(text, "ranks.yaml");
  return request;
}

TEST(Check, OrderListsTheFastestAxisFirst) {
  EXPECT_EQ(parse_order("tp,ulysses,ring"),
            (std::vector<Axis>{Axis::kTp, Axis::kUlysses, Axis::kRing}));
  CheckRequest request = degrees(2, 1, 4);
  request.order = parse_order("ulysses,tp");
  const CheckResult result = check_layout(on_switch("diffusers", 8), request);
  EXPECT_TRUE(result.legal);
  ASSERT_TRUE(result.mesh);
  EXPECT_EQ(result.mesh->group(0, Axis::kUlysses), (Ints{0, 1, 2, 3}));
  EXPECT_EQ(result.mesh_from, "order ulysses, tp (fastest first)");
}

TEST(Check, WrongOrdersAreInputErrors) {
  for (const char* text : {"", "tp,", "tp,tp", "tp,ulyses", "tp ulysses"})
    EXPECT_THROW(parse_order(text), InputError) << text;
  try {
    parse_order("tp,ulyses");
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("did you mean 'ulysses'"), std::string::npos)
        << e.what();
  }
}

TEST(Check, AFixedOrderEngineRefusesAnotherOrder) {
  CheckRequest request = degrees(2, 1, 4);
  EXPECT_TRUE(check_layout(on_switch("sglang", 8), request).legal);
  request.order = parse_order("ulysses,tp");
  const CheckResult result = check_layout(on_switch("sglang", 8), request);
  EXPECT_FALSE(result.legal);
  EXPECT_EQ(codes(result.findings), Codes{"rank-order"});
  EXPECT_EQ(result.instead, "tp2 x ulysses4 is legal with the rank order of sglang");
}

TEST(Check, NestedListsAreReplicaCfgRingUlyssesTp) {
  const Problem p = on_switch("diffusers", 4);
  const CheckResult result =
      check_layout(p, with_ranks(degrees(2, 1, 2), "[[0, 3], [1, 2]]"));
  EXPECT_TRUE(result.legal);
  EXPECT_EQ(result.mesh->group(0, Axis::kTp), (Ints{0, 3}));
  EXPECT_EQ(result.mesh->group(0, Axis::kUlysses), (Ints{0, 1}));
  // Axes of degree 1 may stand there, and JSON is YAML.
  const CheckResult deep =
      check_layout(p, with_ranks(degrees(2, 1, 2), "[[[0,3],[1,2]]]"));
  EXPECT_EQ(deep.mesh, result.mesh);
}

TEST(Check, GroupsOfEveryAxis) {
  const Problem p = on_switch("diffusers", 8);
  const CheckResult result =
      check_layout(p, with_ranks(degrees(2, 1, 4),
                                 "tp: [[0, 4], [1, 5], [2, 6], [3, 7]]\nulysses: [[0, 1, "
                                 "2, 3], [4, 5, 6, 7]]\n"));
  EXPECT_TRUE(result.legal);
  ASSERT_TRUE(result.mesh);
  EXPECT_EQ(result.mesh->coordinate(6, Axis::kTp), 1);
  EXPECT_EQ(result.mesh->coordinate(6, Axis::kUlysses), 2);
}

TEST(Check, BL003GroupsOfTwoAxesShareOneRank) {
  const CheckResult result = check_layout(
      on_switch("diffusers", 4),
      with_ranks(degrees(2, 1, 2), "{tp: [[0, 1], [2, 3]], ulysses: [[0, 1], [2, 3]]}"));
  EXPECT_FALSE(result.legal);
  ASSERT_EQ(codes(result.findings), Codes{"mesh-overlap"});
  EXPECT_NE(result.findings[0].message.find("[0,1] and the tp group [0,1] share 2 ranks"),
            std::string::npos)
      << result.findings[0].message;
}

TEST(Check, BL014GroupsOfAnAxisPartitionTheWorld) {
  const Problem p = on_switch("diffusers", 4);
  const CheckResult missing =
      check_layout(p, with_ranks(degrees(2, 1, 1), "{tp: [[0, 2]]}"));
  EXPECT_FALSE(missing.legal);
  ASSERT_EQ(codes(missing.findings), Codes{"mesh-partition"});
  EXPECT_NE(missing.findings[0].message.find("rank 2 is not in 0..1, rank 1 is missing"),
            std::string::npos)
      << missing.findings[0].message;
  const CheckResult twice =
      check_layout(p, with_ranks(degrees(2, 1, 2), "[[0, 1], [1, 2]]"));
  ASSERT_EQ(codes(twice.findings), Codes{"mesh-partition"});
  EXPECT_NE(twice.findings[0].message.find("rank 1 is listed twice, rank 3 is missing"),
            std::string::npos)
      << twice.findings[0].message;
  // Right members, but no grid: 0 and 2 would both be the first of both their groups.
  EXPECT_EQ(codes(check_layout(
                      p, with_ranks(degrees(2, 1, 2),
                                    "{tp: [[0, 1], [2, 3]], ulysses: [[0, 3], [2, 1]]}"))
                      .findings),
            Codes{"mesh-partition"});
}

TEST(Check, FilesThatAreNoRanksAreInputErrors) {
  const Problem p = on_switch("diffusers", 4);
  for (const char* text :
       {"", "3", "[[0, 1], [2]]", "[[0, 1], 2]", "{tp: 3}", "{tpp: [[0, 1], [2, 3]]}",
        "[[0, x]]", "{tp: [[0, 1], [2, 3]], tp: [[0, 1], [2, 3]]}", "[[0, 1.5]]", "[]"})
    EXPECT_THROW(parse_ranks(text, "ranks.yaml"), InputError) << text;
  EXPECT_THROW(check_layout(p, with_ranks(degrees(2, 1, 2), "[[0, 1, 2, 3]]")),
               InputError);
  EXPECT_THROW(check_layout(p, with_ranks(degrees(2, 1, 2), "{tp: [[0, 1], [2, 3]]}")),
               InputError);
  EXPECT_THROW(check_layout(p, with_ranks(degrees(4, 1, 1), "{tp: [[0, 1], [2, 3]]}")),
               InputError);
  EXPECT_THROW(read_ranks("/nonexistent/ranks.yaml"), InputError);
}

TEST(Check, StartedRanksMustBeTheProduct) {
  CheckRequest request = degrees(2, 1, 2);
  request.devices = 8;
  const CheckResult result = check_layout(on_switch("hprun", 8), request);
  ASSERT_EQ(codes(result.findings), Codes{"world-size"});
  EXPECT_NE(result.findings[0].message.find("makes 4 ranks, and 8 are started"),
            std::string::npos);
}

TEST(Check, TheRingMethodIsTheEnginesUnlessGiven) {
  EXPECT_EQ(check_layout(on_switch("diffusers", 8), degrees(1, 8, 1)).ring_method,
            RingMethod::kAllGather);
  EXPECT_TRUE(check_layout(on_switch("diffusers", 8), degrees(1, 8, 1)).legal);
  EXPECT_EQ(check_layout(on_switch("hprun", 8), degrees(1, 8, 1)).ring_method,
            RingMethod::kP2p);
  EXPECT_EQ(
      codes(check_layout(on_switch("diffusers", 8), degrees(1, 8, 1, RingMethod::kP2p))
                .findings),
      Codes{"ring-method"});
}

TEST(Check, DegreesBeyondAnyMachineAreRefusedAtOnce) {
  constexpr int kHuge = 2147483647;
  for (const CheckRequest& request : {degrees(1000000000, 1, 1), degrees(1, kHuge, kHuge),
                                      degrees(kHuge, kHuge, kHuge)}) {
    const CheckResult result = check_layout(on_switch("hprun", 8), request);
    EXPECT_EQ(codes(result.findings), Codes{"world-size"});
    EXPECT_FALSE(result.mesh);
  }
}

TEST(Check, MoreDevicesThanTheMachineHasMakeNoMesh) {
  const CheckResult result = check_layout(on_switch("hprun", 8), degrees(8, 1, 4));
  EXPECT_FALSE(result.mesh);
  EXPECT_EQ(codes(result.findings), Codes{"world-size"});
}

// peers 2.4 of the Neuron rules: T8 x U4 on 32 cores works with ulysses first only.
TEST(Check, Trn2Tp8Ulysses4WorksWithUlyssesFirst) {
  for (const FabricRules rules : {FabricRules::kCompiled, FabricRules::kEager}) {
    const Problem p = on_trn2("diffusers", rules);
    CheckRequest request = degrees(8, 1, 4);
    request.order = parse_order("ulysses,tp");
    EXPECT_TRUE(check_layout(p, request).legal);
    request.order = parse_order("tp,ulysses");
    EXPECT_FALSE(check_layout(p, request).legal);
  }
}

// BL-002: tp first strides the all-to-all groups; fine behind a switch.
TEST(Check, BL002StridedAllToAllGroups) {
  Problem p = on_trn2("diffusers", FabricRules::kEager);
  CheckRequest request = degrees(2, 1, 4);
  request.order = parse_order("tp,ulysses");
  const CheckResult strided = check_layout(p, request);
  EXPECT_FALSE(strided.legal);
  EXPECT_NE(find(strided.findings, "fabric-aligned"), nullptr);
  request.order = parse_order("ulysses,tp");
  EXPECT_TRUE(check_layout(p, request).legal);
  request.order = parse_order("tp,ulysses");
  EXPECT_TRUE(check_layout(on_switch("diffusers", 8, 56), request).legal);
}

// 8 x 8 on 64 cores: no order is legal, the rows and columns of the torus are.
TEST(Check, Trn2EightByEightNeedsRowsAndColumns) {
  const Problem p = on_trn2("hprun", FabricRules::kCompiled);
  for (const char* order : {"tp,ring", "ring,tp"}) {
    CheckRequest request = degrees(8, 8, 1, RingMethod::kAllGather);
    request.order = parse_order(order);
    const CheckResult refused = check_layout(p, request);
    EXPECT_FALSE(refused.legal) << order;
    // Making either axis the fastest only moves the fault to the other.
    EXPECT_NE(refused.instead.find("tp8 x ring8 is legal with placement row:"),
              std::string::npos)
        << refused.instead;
  }
  const std::string rows =
      "tp:\n"
      "  - [0, 1, 2, 3, 12, 13, 14, 15]\n  - [4, 5, 6, 7, 8, 9, 10, 11]\n"
      "  - [16, 17, 18, 19, 28, 29, 30, 31]\n  - [20, 21, 22, 23, 24, 25, 26, 27]\n"
      "  - [32, 33, 34, 35, 44, 45, 46, 47]\n  - [36, 37, 38, 39, 40, 41, 42, 43]\n"
      "  - [48, 49, 50, 51, 60, 61, 62, 63]\n  - [52, 53, 54, 55, 56, 57, 58, 59]\n"
      "ring:\n"
      "  - [0, 4, 16, 20, 32, 36, 48, 52]\n  - [1, 5, 17, 21, 33, 37, 49, 53]\n"
      "  - [2, 6, 18, 22, 34, 38, 50, 54]\n  - [3, 7, 19, 23, 35, 39, 51, 55]\n"
      "  - [12, 8, 28, 24, 44, 40, 60, 56]\n  - [13, 9, 29, 25, 45, 41, 61, 57]\n"
      "  - [14, 10, 30, 26, 46, 42, 62, 58]\n  - [15, 11, 31, 27, 47, 43, 63, 59]\n";
  const CheckResult grid =
      check_layout(p, with_ranks(degrees(8, 8, 1, RingMethod::kAllGather), rows));
  EXPECT_TRUE(grid.legal) << (grid.findings.empty() ? "" : grid.findings[0].message);
  // Without a mesh, check finds a placement by itself and says which.
  const CheckResult found = check_layout(p, degrees(8, 8, 1, RingMethod::kAllGather));
  EXPECT_TRUE(found.legal);
  EXPECT_EQ(found.mesh_from.rfind("placement row:", 0), 0u) << found.mesh_from;
  // The plugin builds its own rows and columns.
  EXPECT_TRUE(check_layout(on_trn2("vllm-omni-neuron", FabricRules::kCompiled),
                           degrees(8, 8, 1, RingMethod::kAllGather))
                  .legal);
}

TEST(Check, MemoryStagesThatDoNotFitAreNamed) {
  Problem p = on_switch("hprun", 8);
  p.model = minimax_h3();
  p.topology.device_memory = Bytes(8e9);
  const CheckResult result = check_layout(p, degrees(1, 1, 8));
  ASSERT_TRUE(result.memory);
  EXPECT_NE(find(result.findings, "memory-denoise"), nullptr);
  EXPECT_FALSE(result.legal);
}

}  // namespace
}  // namespace hpplan::testing
