// Heads, KV heads, widths and quantization blocks, per engine.
#include <gtest/gtest.h>

#include "planner/rules_parts.h"
#include "tests/planner/rules_fixture.h"

namespace hpplan::testing {
namespace {

using Ints = std::vector<int>;
using Codes = std::vector<std::string>;

constexpr std::int64_t kAnyMlp = 40320;  // 2^7 * 3^2 * 5 * 7: never the reason here

// The tp x ulysses of 8 devices that an engine takes, "1x8 2x4 4x2 8x1".
std::string on_eight(const std::string& engine, int heads) {
  Problem p = problem_of(dit(heads, kAnyMlp), engine, nvswitch(8));
  if (!p.engine.vendors.empty()) p.topology.vendor = p.engine.vendors.front();
  std::string legal_ones;
  for (const int tp : {1, 2, 4, 8})
    if (legal(check_degrees(p, Degrees::make(tp, 1, 8 / tp), RingMethod::kP2p)))
      legal_ones += (legal_ones.empty() ? "" : " ") + std::to_string(tp) + "x" +
                    std::to_string(8 / tp);
  return legal_ones;
}

struct EngineRow {
  std::string engine;
  std::string on56, on40, on30, on24, on12;
};
void PrintTo(const EngineRow& row, std::ostream* out) { *out << row.engine; }

class EightDevices : public ::testing::TestWithParam<EngineRow> {};

TEST_P(EightDevices, TpTimesUlysses) {
  const EngineRow& row = GetParam();
  EXPECT_EQ(on_eight(row.engine, 56), row.on56);
  EXPECT_EQ(on_eight(row.engine, 40), row.on40);
  EXPECT_EQ(on_eight(row.engine, 30), row.on30);
  EXPECT_EQ(on_eight(row.engine, 24), row.on24);
  EXPECT_EQ(on_eight(row.engine, 12), row.on12);
}

const char kAll[] = "1x8 2x4 4x2 8x1";
INSTANTIATE_TEST_SUITE_P(
    Engines, EightDevices,
    ::testing::Values(EngineRow{"sglang", kAll, kAll, "", kAll, ""},
                      EngineRow{"tensorrt-llm", kAll, kAll, "", kAll, ""},
                      EngineRow{"lightx2v", kAll, kAll, "", kAll, ""},
                      EngineRow{"maxdiffusion", kAll, kAll, "", kAll, ""},
                      EngineRow{"vllm-omni-neuron", kAll, kAll, "", kAll, ""},
                      // tp and ulysses groups would share ranks.
                      EngineRow{"xdit", "1x8 8x1", "1x8 8x1", "", "1x8 8x1", ""},
                      EngineRow{"paraattention", "1x8", "1x8", "", "1x8", ""},
                      // 30 on u8: pad 2 < 4; 15 on u4: pad 1 < 4; 12 on u8: pad 4, 2 a
                      // rank; 6 on u4: pad 2, 2 a rank; 3 on u2: 1 < 2.
                      EngineRow{"diffusers", kAll, kAll, "1x8 2x4", kAll, "4x2"},
                      EngineRow{"cache-dit", kAll, kAll, "1x8 2x4", kAll, "4x2"},
                      EngineRow{"vllm-omni", kAll, kAll, "1x8 2x4", kAll, "1x8 2x4 4x2"},
                      EngineRow{"hprun", kAll, kAll, "1x8 2x4", kAll, "1x8 2x4 4x2"}),
    [](const auto& info) {
      std::string name = info.param.engine;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

// 56 heads under the padding limit of diffusers: pad < (h + pad) / u.
TEST(RulesHeads, DiffusersPadsWhileEveryRankKeepsARealHead) {
  const Problem p = problem_of(dit(56, kAnyMlp), "diffusers", nvswitch(512));
  struct Row {
    int tp, ulysses;
    bool fits;
    int padded;
  };
  for (const Row& row :
       {Row{8, 2, true, 8}, Row{8, 4, true, 8}, Row{8, 7, true, 7}, Row{8, 8, false, 8},
        Row{4, 2, true, 14}, Row{4, 7, true, 14}, Row{4, 14, true, 14},
        Row{4, 4, true, 16}, Row{4, 8, false, 16}, Row{2, 7, true, 28},
        Row{2, 8, false, 32}, Row{2, 16, false, 32}, Row{1, 8, true, 56},
        Row{1, 16, false, 64}, Row{7, 3, true, 9}, Row{7, 8, true, 8}}) {
    const Degrees d = Degrees::make(row.tp, 1, row.ulysses);
    EXPECT_EQ(legal(check_degrees(p, d, RingMethod::kAllGather)), row.fits) << d.str();
    const auto split = split_of(p, d, RingMethod::kAllGather);
    ASSERT_EQ(split.has_value(), row.fits) << d.str();
    if (!split) continue;
    EXPECT_EQ(split->local_heads, 56 / row.tp) << d.str();
    EXPECT_EQ(split->padded_heads, row.padded) << d.str();
    EXPECT_EQ(split->busiest_heads, row.padded / row.ulysses) << d.str();
  }
}

TEST(RulesHeads, DiffusersRefusalShowsThePaddingArithmetic) {
  const Problem p = problem_of(minimax_h3(), "diffusers", nvswitch(64), 37739);
  const auto findings = check_degrees(p, Degrees::make(8, 1, 8), RingMethod::kAllGather);
  ASSERT_EQ(codes(findings), Codes{"ulysses-heads"});
  EXPECT_NE(findings[0].message.find("56 heads / tp 8 = 7 heads a rank"),
            std::string::npos)
      << findings[0].message;
  EXPECT_NE(findings[0].message.find("padded 7 -> 8 for ulysses 8 (pad 1, 1 a rank)"),
            std::string::npos)
      << findings[0].message;
  EXPECT_NE(findings[0].message.find("1 < 1 does not hold"), std::string::npos)
      << findings[0].message;
  EXPECT_NE(findings[0].suggestion.find("1, 2, 3, 4, 7 (nearest 7)"), std::string::npos)
      << findings[0].suggestion;
  EXPECT_EQ(findings[0].details.at("local_heads"), "7");
}

TEST(RulesHeads, DiffusersPaddingExcludesTheRing) {
  const Problem p = problem_of(dit(30, 10240), "diffusers", nvswitch(16));
  EXPECT_TRUE(legal(check_degrees(p, Degrees::make(1, 1, 8), RingMethod::kAllGather)));
  const auto findings = check_degrees(p, Degrees::make(1, 2, 8), RingMethod::kAllGather);
  ASSERT_EQ(codes(findings), Codes{"ulysses-heads"});
  EXPECT_NE(findings[0].message.find("ulysses_anything=True needs ring 1"),
            std::string::npos)
      << findings[0].message;
}

TEST(RulesHeads, AdvancedUaaHasNoLimitAndWorksBesideARing) {
  const Problem p = problem_of(dit(56, kAnyMlp), "vllm-omni", nvswitch(128), 37760);
  const auto findings = check_degrees(p, Degrees::make(8, 1, 8), RingMethod::kP2p);
  EXPECT_TRUE(legal(findings));
  const Finding* warned = find(findings, "heads-padded");
  ASSERT_NE(warned, nullptr);
  EXPECT_NE(warned->message.find("7 heads a tp rank padded to 8 for ulysses 8: 14.3 %"),
            std::string::npos)
      << warned->message;
  EXPECT_NE(warned->message.find("1 of 8 ranks hold padding alone"), std::string::npos)
      << warned->message;
  EXPECT_TRUE(legal(check_degrees(p, Degrees::make(8, 2, 4), RingMethod::kP2p)));
  // Beside a ring the rows must divide.
  Problem odd = p;
  odd.rows.streams[0].rows = 37739;
  EXPECT_EQ(errors(odd, Degrees::make(8, 2, 4)), Codes{"rows-divide"});
  EXPECT_TRUE(legal(check_degrees(odd, Degrees::make(8, 1, 4), RingMethod::kP2p)));
}

TEST(RulesHeads, UnevenSharesLeaveNoRankWithoutAHead) {
  const Problem p = problem_of(dit(12, kAnyMlp), "hprun", nvswitch(64));
  const auto split = split_of(p, Degrees::make(1, 1, 8), RingMethod::kP2p);
  ASSERT_TRUE(split);
  EXPECT_EQ(split->mode.policy, HeadPolicy::kUneven);
  EXPECT_EQ(split->busiest_heads, 2);
  // 16 ranks for 12 heads: only padding can do it.
  const auto padded = split_of(p, Degrees::make(1, 1, 16), RingMethod::kP2p);
  ASSERT_TRUE(padded);
  EXPECT_EQ(padded->mode.policy, HeadPolicy::kPadAny);
  EXPECT_EQ(padded->padded_heads, 16);
}

TEST(RulesHeads, EqualShapesTurnUnevenSharesIntoPadding) {
  Problem p = problem_of(minimax_h3(), "hprun", trn2(), 37739);
  const auto split = split_of(p, Degrees::make(8, 1, 4), RingMethod::kP2p);
  ASSERT_TRUE(split);
  EXPECT_EQ(split->mode.policy, HeadPolicy::kPadAny);
  EXPECT_EQ(split->padded_heads, 8);
  EXPECT_EQ(split->padded_rows, 37740);
  p.topology = nvswitch(64);
  EXPECT_EQ(split_of(p, Degrees::make(8, 1, 4), RingMethod::kP2p)->mode.policy,
            HeadPolicy::kUneven);
}

TEST(RulesHeads, BL018LegalTpDividesHeadsAndEveryWidth) {
  const Problem p = problem_of(dit(30, 10240, 3840), "hprun", nvswitch(16));
  EXPECT_EQ(rules::legal_tp(p, 16), (Ints{1, 2, 5, 10}));
  for (const int tp : {3, 6, 15})
    EXPECT_EQ(errors(p, Degrees::make(tp, 1, 1)), Codes{"mlp-tp"}) << tp;
  EXPECT_EQ(errors(p, Degrees::make(4, 1, 1)), Codes{"heads-tp"});
  const auto findings = check_degrees(p, Degrees::make(6, 1, 1), RingMethod::kP2p);
  EXPECT_NE(findings[0].message.find("10240 % 6 = 4"), std::string::npos)
      << findings[0].message;
  EXPECT_NE(findings[0].suggestion.find("1, 2, 5, 10 (nearest 5)"), std::string::npos)
      << findings[0].suggestion;
}

TEST(RulesHeads, BL019SetsOfTwelveAndFortyHeads) {
  const Problem small = problem_of(dit(12, 8960), "sglang", nvswitch(8));
  EXPECT_EQ(rules::legal_tp(small, 12), (Ints{1, 2, 4}));
  EXPECT_EQ(legal_degrees(small, Axis::kUlysses, 8), (Ints{1, 2, 3, 4, 6}));
  EXPECT_EQ(errors(small, Degrees::make(1, 1, 8)), Codes{"ulysses-heads"});
  for (const auto& [u, r] : {std::pair{4, 2}, {2, 4}, {1, 8}})
    EXPECT_TRUE(legal(check_degrees(small, Degrees::make(1, r, u), RingMethod::kP2p)))
        << u << "x" << r;

  const Problem large = problem_of(dit(40, 13824), "sglang", nvswitch(8));
  EXPECT_EQ(rules::legal_tp(large, 40), (Ints{1, 2, 4, 8}));
  for (const auto& [u, r] : {std::pair{8, 1}, {4, 2}, {2, 4}, {1, 8}})
    EXPECT_TRUE(legal(check_degrees(large, Degrees::make(1, r, u), RingMethod::kP2p)))
        << u << "x" << r;
}

TEST(RulesHeads, BL020NeverFloorsHeads) {
  const Problem p = problem_of(dit(30, 10240, 3840), "diffusers", nvswitch(8));
  EXPECT_EQ(errors(p, Degrees::make(4, 1, 1), RingMethod::kAllGather), Codes{"heads-tp"});
  EXPECT_FALSE(split_of(p, Degrees::make(4, 1, 1), RingMethod::kAllGather).has_value());
}

// xDiT refuses padding except for Z-Image, where padded ulysses 8 was the faster plan.
TEST(RulesHeads, BL022PaddedUlyssesStandsBesideTheStrictHybrid) {
  Problem p = problem_of(dit(30, 10240, 3840), "xdit", nvswitch(8));
  p.workload.branches = 2;
  EXPECT_TRUE(legal(check_degrees(p, Degrees::make(1, 2, 2, 2), RingMethod::kP2p)));
  EXPECT_EQ(errors(p, Degrees::make(1, 1, 8)), Codes{"ulysses-heads"});
  p.model.name = "z-image";
  EXPECT_TRUE(legal(check_degrees(p, Degrees::make(1, 1, 8), RingMethod::kP2p)));
  EXPECT_EQ(split_of(p, Degrees::make(1, 1, 8), RingMethod::kP2p)->padded_heads, 32);
}

// Either test failing is a refusal: all four combinations.
TEST(RulesHeads, BL025QueryAndKvHeadsAreTestedEach) {
  const auto with = [](int heads, int kv) {
    ModelSpec m = dit(heads, kAnyMlp);
    m.kv_heads = kv;
    return problem_of(m, "tensorrt-llm", nvswitch(8), 15360);
  };
  EXPECT_TRUE(
      legal(check_degrees(with(24, 8), Degrees::make(1, 1, 4), RingMethod::kP2p)));
  EXPECT_EQ(errors(with(24, 6), Degrees::make(1, 1, 4)), Codes{"ulysses-kv-heads"});
  EXPECT_EQ(errors(with(30, 10), Degrees::make(1, 1, 4)), Codes{"ulysses-heads"});
  EXPECT_EQ(errors(with(24, 24), Degrees::make(1, 1, 5)), Codes{"ulysses-heads"});
  // Copies help only when the degree is a multiple of the KV heads.
  Problem copies = with(24, 6);
  copies.engine.kv_replication_ulysses = true;
  EXPECT_EQ(errors(copies, Degrees::make(1, 1, 4)), Codes{"ulysses-kv-heads"});
  copies.topology = nvswitch(16);
  EXPECT_TRUE(legal(check_degrees(copies, Degrees::make(1, 1, 12), RingMethod::kP2p)));
}

TEST(RulesHeads, BL026KvHeadsArePaddedFirst) {
  ModelSpec m = dit(28, 7168);
  m.kv_heads = 7;
  const Problem p = problem_of(m, "vllm-omni", nvswitch(8));
  const auto split = split_of(p, Degrees::make(1, 1, 2), RingMethod::kP2p);
  ASSERT_TRUE(split);
  EXPECT_EQ(split->padded_heads, 32);
  EXPECT_EQ(split->busiest_heads, 16);
  // Padding 28 -> 28 and 7 -> 8 would give 3.5 queries a KV head: engines that pad each
  // alone refuse.
  const Problem alone = problem_of(m, "diffusers", nvswitch(8));
  EXPECT_EQ(errors(alone, Degrees::make(1, 1, 2), RingMethod::kAllGather),
            Codes{"ulysses-kv-heads"});
}

TEST(RulesHeads, BL031WholeKvGroupsGoToARank) {
  HeadMode uneven;
  uneven.policy = HeadPolicy::kUneven;
  const Engine engine = engine_named("hprun");
  const auto v = rules::judge_heads(engine, 6, 3, 2, uneven);
  EXPECT_EQ(v.refusal, rules::HeadRefusal::kNone);
  EXPECT_EQ(v.busiest, 4);
  EXPECT_EQ(rules::judge_heads(engine, 12, 12, 4, uneven).busiest, 3);
}

TEST(RulesHeads, BL034FewerKvHeadsThanTpAreCopiedNeverZero) {
  ModelSpec m = dit(64, kAnyMlp);
  m.kv_heads = 2;
  const Problem p = problem_of(m, "hprun", nvswitch(8));
  EXPECT_EQ(rules::local_kv_heads(m, p.engine, 8), 1);
  EXPECT_TRUE(legal(check_degrees(p, Degrees::make(8, 1, 1), RingMethod::kP2p)));
  Problem never = p;
  never.engine.kv_replication = false;
  EXPECT_EQ(errors(never, Degrees::make(8, 1, 1)), Codes{"kv-heads"});
  m.heads = 60;
  m.kv_heads = 3;
  EXPECT_EQ(errors(problem_of(m, "hprun", nvswitch(8)), Degrees::make(4, 1, 1)),
            Codes{"kv-heads"});
}

TEST(RulesHeads, HeadsMustDivideByKvHeadsFirst) {
  ModelSpec m = dit(24, kAnyMlp);
  m.kv_heads = 5;
  EXPECT_EQ(errors(problem_of(m, "hprun", nvswitch(8)), Degrees::make(1, 1, 1)),
            Codes{"kv-heads"});
}

TEST(RulesHeads, BL047ModulationWidthIsCutPerChunk) {
  ModelSpec m = dit(20, 10240, 2560);
  m.blocks[0].adaln_in = 2560;
  m.blocks[0].adaln_out = 12 * 2560;
  Problem p = problem_of(m, "hprun", nvswitch(8));
  EXPECT_TRUE(legal(check_degrees(p, Degrees::make(4, 1, 1), RingMethod::kP2p)));
  p.model.blocks[0].adaln_out = 30722;
  EXPECT_EQ(errors(p, Degrees::make(4, 1, 1)), Codes{"adaln-tp"});
  p.engine.adaln_divided = false;
  EXPECT_TRUE(legal(check_degrees(p, Degrees::make(4, 1, 1), RingMethod::kP2p)));
}

TEST(RulesHeads, FusedWeightsNameThePartThatDoesNotDivide) {
  ModelSpec m = minimax_h3();
  m.blocks[0].adaln_out = 0;
  const Problem p = problem_of(m, "hprun", nvswitch(16));
  const auto findings = check_degrees(p, Degrees::make(16, 1, 1), RingMethod::kP2p);
  EXPECT_EQ(codes(findings), (Codes{"heads-tp", "packed-tp"}));
  EXPECT_NE(find(findings, "packed-tp")->message.find("q (7168 wide = 56 heads)"),
            std::string::npos);
  EXPECT_EQ(rules::legal_tp(p, 64), (Ints{1, 2, 4, 7, 8, 14, 28, 56}));
}

TEST(RulesHeads, BL051LegalTpDependsOnTheQuantizationBlock) {
  const auto set = [](int heads, std::int64_t mlp, int block) {
    Problem p = problem_of(dit(heads, mlp), "hprun", nvswitch(8));
    p.workload.quant_block = block;
    return rules::legal_tp(p, 8);
  };
  EXPECT_EQ(set(40, 13824, 0), (Ints{1, 2, 4, 8}));
  EXPECT_EQ(set(40, 13824, 128), (Ints{1, 2, 4}));  // 13824 / 8 is 13.5 blocks
  EXPECT_EQ(set(12, 8960, 0), (Ints{1, 2, 4}));
  EXPECT_EQ(set(12, 8960, 128), (Ints{1, 2}));  // 8960 / 4 is 17.5 blocks
  EXPECT_EQ(set(56, 14336, 128), (Ints{1, 2, 4, 7, 8}));
}

TEST(RulesHeads, BL052BlockOf128OnAWidthOf192) {
  Problem p = problem_of(dit(16, 1536), "hprun", nvswitch(8));
  p.workload.quant_block = 128;
  const auto findings = check_degrees(p, Degrees::make(8, 1, 1), RingMethod::kP2p);
  ASSERT_EQ(codes(findings), Codes{"quant-block"});
  EXPECT_NE(findings[0].message.find(
                "192 wide on a rank with tp 8, which is 1.5 quantization blocks of 128"),
            std::string::npos)
      << findings[0].message;
  EXPECT_NE(findings[0].suggestion.find("blocks of 64"), std::string::npos)
      << findings[0].suggestion;
  p.workload.quant_block = 64;
  EXPECT_TRUE(legal(check_degrees(p, Degrees::make(8, 1, 1), RingMethod::kP2p)));
}

TEST(RulesHeads, SglangExamplesOfFiftySixHeads) {
  const Problem p = problem_of(minimax_h3(), "sglang", nvswitch(16));
  EXPECT_TRUE(legal(check_degrees(p, Degrees::make(2, 1, 4), RingMethod::kP2p)));
  EXPECT_EQ(errors(p, Degrees::make(4, 1, 4)), Codes{"ulysses-heads"});
}

}  // namespace
}  // namespace hpplan::testing
