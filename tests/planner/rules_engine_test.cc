// What engines cannot do, the guidance branches, the world, and the rank groups engines
// build.
#include <gtest/gtest.h>

#include "planner/rules_parts.h"
#include "planner/spec/error.h"
#include "tests/planner/rules_fixture.h"

namespace hpplan::testing {
namespace {

using Codes = std::vector<std::string>;
using Groups = std::vector<std::vector<int>>;
constexpr std::int64_t kAnyMlp = 40320;
constexpr RingMethod kP2p = RingMethod::kP2p;

Problem plain(const std::string& engine, int devices = 8, int heads = 24) {
  return problem_of(dit(heads, kAnyMlp), engine, nvswitch(devices));
}

TEST(RulesEngine, RingMethods) {
  EXPECT_EQ(errors(plain("diffusers"), Degrees::make(1, 2, 1), kP2p),
            Codes{"ring-method"});
  EXPECT_TRUE(legal(
      check_degrees(plain("diffusers"), Degrees::make(1, 2, 1), RingMethod::kAllGather)));
  EXPECT_EQ(errors(plain("xdit"), Degrees::make(1, 2, 1), RingMethod::kAllGather),
            Codes{"ring-method"});
  EXPECT_EQ(errors(plain("vllm-omni"), Degrees::make(1, 2, 2), RingMethod::kAllGather),
            Codes{"ring-ulysses"});
  EXPECT_TRUE(legal(check_degrees(plain("vllm-omni"), Degrees::make(1, 2, 2), kP2p)));
  EXPECT_EQ(errors(plain("lightx2v"), Degrees::make(1, 2, 2), kP2p),
            Codes{"ring-ulysses"});
  EXPECT_TRUE(legal(
      check_degrees(plain("sglang"), Degrees::make(1, 2, 2), RingMethod::kAllGather)));
  for (const RingMethod method : {kP2p, RingMethod::kAllGather})
    EXPECT_TRUE(legal(check_degrees(plain("hprun"), Degrees::make(2, 2, 2), method)));
}

TEST(RulesEngine, VendorsAndMissingAxes) {
  Problem p = plain("tensorrt-llm");
  p.topology.vendor = "amd";
  EXPECT_EQ(errors(p, Degrees::make(1, 1, 2)), Codes{"engine-vendor"});
  EXPECT_EQ(errors(plain("paraattention"), Degrees::make(2, 1, 1)), Codes{"engine-tp"});
  Problem apart = plain("sglang");
  apart.engine.tp_with_sequence = false;
  EXPECT_EQ(errors(apart, Degrees::make(2, 1, 2)), Codes{"engine-tp-sequence"});
  EXPECT_TRUE(legal(check_degrees(apart, Degrees::make(2, 1, 1), kP2p)));
}

// xDiT's ulysses groups are runs of consecutive ranks: with tp 2 they hold different
// heads of the same rows.
TEST(RulesEngine, XditTpAndUlyssesGroupsOverlap) {
  const auto findings = check_degrees(plain("xdit"), Degrees::make(2, 1, 2), kP2p);
  ASSERT_EQ(codes(findings), Codes{"engine-groups"});
  EXPECT_NE(findings[0].message.find("[0,1] shares 2 ranks with the tp group [0,1]"),
            std::string::npos)
      << findings[0].message;
  EXPECT_EQ(errors(plain("xdit"), Degrees::make(2, 2, 1)), Codes{"engine-groups"});
}

TEST(RulesEngine, XditTestsAllHeadsAndHidesTheLocalCount) {
  const auto findings =
      check_degrees(plain("xdit", 64, 56), Degrees::make(8, 1, 8), kP2p);
  EXPECT_EQ(codes(findings), Codes{"engine-groups"});
  const Finding* warned = find(findings, "ulysses-heads");
  ASSERT_NE(warned, nullptr);
  EXPECT_EQ(warned->severity, Severity::kWarning);
  EXPECT_NE(warned->message.find("a rank holds 7 heads and 7 % 8 = 7"), std::string::npos)
      << warned->message;
}

TEST(RulesEngine, BL050AdaptersAreNotFusedIntoCutOrQuantizedWeights) {
  Problem p = plain("sglang");
  p.workload.fused_adapters = true;
  EXPECT_TRUE(legal(check_degrees(p, Degrees::make(1, 1, 2), kP2p)));
  EXPECT_EQ(errors(p, Degrees::make(2, 1, 1)), Codes{"adapter-fusion"});
  p.workload.dtype = DType::kFp8;
  EXPECT_EQ(errors(p, Degrees::make(1, 1, 1)), Codes{"adapter-fusion"});
  p.engine.fuses_adapters_sharded = true;
  EXPECT_TRUE(legal(check_degrees(p, Degrees::make(2, 1, 1), kP2p)));
}

TEST(RulesEngine, BL082RowIndicesAreCutOrTheModelIsRefused) {
  Problem p = plain("sglang");
  p.model.streams.resize(2);  // two packed modalities
  EXPECT_TRUE(legal(check_degrees(p, Degrees::make(1, 1, 2), kP2p)));
  p.engine.shards_row_index = false;
  EXPECT_EQ(errors(p, Degrees::make(1, 1, 2)), Codes{"row-index"});
  EXPECT_TRUE(legal(check_degrees(p, Degrees::make(2, 1, 1), kP2p)));
}

TEST(RulesEngine, BL083EveryAttentionOpSupportsTheMesh) {
  Problem p = plain("sglang");
  StreamSpec text;
  text.name = "text";
  text.kind = StreamKind::kJoint;
  p.model.streams.push_back(text);
  p.rows.streams = {{"text", StreamKind::kJoint, 512},
                    {"image", StreamKind::kPacked, 4096}};
  EXPECT_TRUE(legal(check_degrees(p, Degrees::make(1, 2, 2), kP2p)));
  p.engine.ring_with_joint = false;
  EXPECT_EQ(errors(p, Degrees::make(1, 2, 2)), Codes{"attention-joint"});
  EXPECT_TRUE(legal(check_degrees(p, Degrees::make(1, 1, 4), kP2p)));
  Problem gqa = plain("sglang");
  gqa.model.kv_heads = 12;
  gqa.engine.ring_with_gqa = false;
  EXPECT_EQ(errors(gqa, Degrees::make(1, 2, 1)), Codes{"attention-gqa"});
}

TEST(RulesEngine, BL092KernelsThatCannotDoWhatTheMeshNeeds) {
  Problem p = plain("sglang");
  p.engine.stack.attention_kernel = "sdpa";  // returns no LSE
  EXPECT_TRUE(legal(check_degrees(p, Degrees::make(1, 1, 2), kP2p)));
  const auto findings = check_degrees(p, Degrees::make(1, 2, 1), kP2p);
  ASSERT_EQ(codes(findings), Codes{"attention-backend"});
  EXPECT_NE(findings[0].suggestion.find("fa, sage"), std::string::npos)
      << findings[0].suggestion;
  for (AttentionKernel& k : p.engine.attention_kernels) k.sequence = k.name != "sdpa";
  EXPECT_EQ(errors(p, Degrees::make(1, 1, 2)), Codes{"attention-backend"});
  EXPECT_TRUE(legal(check_degrees(p, Degrees::make(2, 1, 1), kP2p)));
}

TEST(RulesEngine, BL147BranchesOverCfgRanks) {
  Problem p = plain("sglang");
  p.workload.branches = 4;
  const auto on3 = check_degrees(p, Degrees::make(1, 1, 1, 3), kP2p);
  EXPECT_TRUE(legal(on3));
  ASSERT_NE(find(on3, "cfg-waste"), nullptr);
  EXPECT_NE(find(on3, "cfg-waste")
                ->message.find(
                    "4 branches on cfg 3 take 2 forward passes, as many as on cfg 2"),
            std::string::npos);
  EXPECT_EQ(find(check_degrees(p, Degrees::make(1, 1, 1, 2), kP2p), "cfg-waste"),
            nullptr);
  EXPECT_EQ(find(check_degrees(p, Degrees::make(1, 1, 1, 4), kP2p), "cfg-waste"),
            nullptr);
}

TEST(RulesEngine, BL148CfgDegreesGoUpToTheBranches) {
  Problem p = plain("sglang");
  p.workload.branches = 4;
  for (const int cfg : {1, 2, 4})
    EXPECT_TRUE(legal(check_degrees(p, Degrees::make(1, 1, 8 / cfg, cfg), kP2p))) << cfg;
  Problem two = plain("xdit");
  two.workload.branches = 4;
  EXPECT_TRUE(legal(check_degrees(two, Degrees::make(1, 1, 4, 2), kP2p)));
  EXPECT_EQ(errors(two, Degrees::make(1, 1, 2, 4)), Codes{"engine-cfg"});
  Problem none = plain("diffusers");
  none.workload.branches = 2;
  EXPECT_EQ(errors(none, Degrees::make(1, 1, 2, 2)), Codes{"engine-cfg"});
}

TEST(RulesEngine, BL149MoreCfgRanksThanBranchesAreRefused) {
  Problem p = plain("hprun");
  p.workload.branches = 3;
  const auto findings = check_degrees(p, Degrees::make(1, 1, 1, 4), kP2p);
  ASSERT_EQ(codes(findings), Codes{"cfg-branches"});
  EXPECT_EQ(findings[0].suggestion, "cfg 1, 2, 3");
  p.workload.branches = 1;  // guidance distilled: halves would be idle
  EXPECT_EQ(errors(p, Degrees::make(1, 1, 1, 2)), Codes{"cfg-branches"});
}

TEST(RulesEngine, BL152WorldSizeNamesProductAndBothFixes) {
  Problem p = plain("xdit", 2);
  p.workload.branches = 2;
  const auto findings = check_degrees(p, Degrees::make(1, 1, 2, 2), kP2p);
  ASSERT_EQ(codes(findings), Codes{"world-size"});
  EXPECT_NE(findings[0].message.find("needs 4 devices; nvswitch2 has 2"),
            std::string::npos)
      << findings[0].message;
  EXPECT_EQ(findings[0].suggestion, "cfg2, or ulysses2");
}

TEST(RulesEngine, BL153DevicesAreTheProductOfAllDegrees) {
  EXPECT_EQ(Degrees::make(1, 2, 2, 1).product(), 4);
  EXPECT_EQ(Degrees::make(1, 2, 2, 2).product(), 8);
  Problem p = plain("xdit", 4);
  p.workload.branches = 2;
  EXPECT_TRUE(legal(check_degrees(p, Degrees::make(1, 2, 2, 1), kP2p)));
  EXPECT_EQ(errors(p, Degrees::make(1, 2, 2, 2)), Codes{"world-size"});
}

TEST(RulesEngine, WorldSizesTheMachineStarts) {
  Problem p = plain("hprun", 32);
  p.topology.world_sizes = {1, 2, 8, 16, 32};
  const auto findings = check_degrees(p, Degrees::make(1, 1, 4), kP2p);
  ASSERT_EQ(codes(findings), Codes{"world-size"});
  EXPECT_NE(findings[0].suggestion.find("nearest 2"), std::string::npos)
      << findings[0].suggestion;
  EXPECT_TRUE(legal(check_degrees(p, Degrees::make(1, 1, 8), kP2p)));
}

// tp2 x ulysses4 of each engine: which axis gets neighbours.
TEST(RulesEngine, RankOrdersOfEngines) {
  const Degrees d = Degrees::make(2, 1, 4);
  for (const char* engine : {"sglang", "vllm-omni", "lightx2v", "cache-dit", "xdit"})
    EXPECT_EQ(engine_mesh(plain(engine), d)->group(0, Axis::kTp),
              (std::vector<int>{0, 1}))
        << engine;
  EXPECT_EQ(engine_mesh(plain("tensorrt-llm"), d)->group(0, Axis::kUlysses),
            (std::vector<int>{0, 1, 2, 3}));
  for (const char* engine : {"hprun", "diffusers", "paraattention", "maxdiffusion"})
    EXPECT_FALSE(engine_mesh(plain(engine), d).has_value()) << engine;
}

TEST(RulesEngine, AMeshTheEngineDoesNotBuildNamesTheAxisAndItsGroups) {
  const Degrees d = Degrees::make(2, 1, 4);
  const Mesh ulysses_first =
      Mesh::from_order(d, {Axis::kUlysses, Axis::kRing, Axis::kTp});
  const auto findings = rules::check_expressible(plain("sglang"), ulysses_first);
  ASSERT_EQ(codes(findings), Codes{"rank-order"});
  EXPECT_EQ(findings[0].details.at("axis"), "tp");
  EXPECT_NE(findings[0].message.find(
                "it builds the tp groups [0,1] [2,3] [4,5] ...; this mesh has [0,4]"),
            std::string::npos)
      << findings[0].message;
  EXPECT_TRUE(rules::check_expressible(plain("tensorrt-llm"), ulysses_first).empty());
  EXPECT_TRUE(rules::check_expressible(plain("diffusers"), ulysses_first).empty());
}

// On trn2 the Neuron plugin replaces its arithmetic groups for tp 8 or 8 sequence ranks.
TEST(RulesEngine, NeuronPluginRowsAndColumns) {
  Problem p = problem_of(minimax_h3(), "vllm-omni-neuron", trn2(), 37744);
  const auto eight = engine_mesh(p, Degrees::make(8, 8, 1));
  EXPECT_EQ(eight->groups(Axis::kTp)[0], (std::vector<int>{0, 2, 4, 6, 12, 14, 8, 10}));
  EXPECT_EQ(eight->group(0, Axis::kRing),
            (std::vector<int>{0, 1, 16, 17, 32, 33, 48, 49}));
  // 32 cores use the first rows; cfg takes neighbouring rows of a column.
  EXPECT_EQ(engine_mesh(p, Degrees::make(8, 4, 1))->group(0, Axis::kRing),
            (std::vector<int>{0, 1, 16, 17}));
  const auto cfg = engine_mesh(p, Degrees::make(8, 4, 1, 2));
  EXPECT_EQ(cfg->group(0, Axis::kCfg), (std::vector<int>{0, 1}));
  EXPECT_EQ(cfg->group(0, Axis::kRing), (std::vector<int>{0, 16, 32, 48}));
  // 8 sequence ranks with tp 4 x cfg 2: a line is two chips' tp and the linked two's.
  const auto a = engine_mesh(p, Degrees::make(4, 8, 1, 2));
  EXPECT_EQ(a->group(0, Axis::kTp), (std::vector<int>{0, 2, 4, 6}));
  EXPECT_EQ(a->group(0, Axis::kCfg), (std::vector<int>{0, 12}));
  EXPECT_EQ(a->group(0, Axis::kRing), (std::vector<int>{0, 1, 16, 17, 32, 33, 48, 49}));
  // Neither: arithmetic.
  EXPECT_EQ(engine_mesh(p, Degrees::make(4, 4, 1))->group(0, Axis::kRing),
            (std::vector<int>{0, 4, 8, 12}));
  // Another machine: arithmetic too.
  p.topology = nvswitch(64, "aws-neuron");
  EXPECT_EQ(engine_mesh(p, Degrees::make(8, 8, 1))->group(0, Axis::kTp),
            (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(RulesEngine, StacksFollowTheVendor) {
  Engine e = engine_named("diffusers");
  EXPECT_EQ(e.stack.name, "diffusers-eager");
  use_stack(e, "aws-neuron");
  EXPECT_EQ(e.stack.name, "neuron-eager");
  EXPECT_DOUBLE_EQ(e.stack.host_per_collective.value, 350e-6);
  Engine xdit = engine_named("xdit");
  use_stack(xdit, "nvidia", "xdit-compile");
  EXPECT_DOUBLE_EQ(xdit.stack.passes_d, 16);
  EXPECT_THROW(use_stack(xdit, "nvidia", "xdit-compiled"), InputError);
  EXPECT_THROW(use_stack(e, "google"), InputError);
  // A stack chosen by hand stays; one of another vendor does not; an engine that does not
  // run there keeps its own.
  fit_stack(xdit, "nvidia");
  EXPECT_EQ(xdit.stack.name, "xdit-compile");
  fit_stack(e, "nvidia");
  EXPECT_EQ(e.stack.name, "diffusers-eager");
  fit_stack(e, "google");
  EXPECT_EQ(e.stack.name, "diffusers-eager");
}

TEST(RulesEngine, EveryCodeInTheTableIsUnique) {
  std::vector<std::string> seen;
  for (const RuleInfo& rule : rule_table()) seen.emplace_back(rule.code);
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
}

}  // namespace
}  // namespace hpplan::testing
