// Rows of every stream: strict, padded, uneven, kept whole; 32-bit offsets.
#include <gtest/gtest.h>

#include "planner/rules_parts.h"
#include "tests/planner/rules_fixture.h"

namespace hpplan::testing {
namespace {

using Codes = std::vector<std::string>;
constexpr std::int64_t kAnyMlp = 40320;

Problem with_streams(const std::string& engine, std::vector<StreamRows> streams,
                     int devices = 8) {
  Problem p = problem_of(dit(24, kAnyMlp), engine, nvswitch(devices));
  p.rows.streams = std::move(streams);
  for (const StreamRows& s : p.rows.streams) {
    StreamSpec spec;
    spec.name = s.name;
    spec.kind = s.kind;
    p.model.streams.push_back(spec);
  }
  return p;
}

Problem packed(const std::string& engine, std::int64_t rows, int devices = 8) {
  return with_streams(engine, {{"video", StreamKind::kPacked, rows}}, devices);
}

TEST(RulesRows, StrictEnginesNameRowsAndEvenDegrees) {
  const Problem p = packed("tensorrt-llm", 37739);
  const auto findings = check_degrees(p, Degrees::make(1, 2, 4), RingMethod::kP2p);
  ASSERT_EQ(codes(findings), Codes{"rows-divide"});
  EXPECT_NE(findings[0].message.find(
                "37739 rows of video, and 37739 % 8 = 3 (ulysses 4 x ring 2)"),
            std::string::npos)
      << findings[0].message;
  EXPECT_TRUE(legal(check_degrees(packed("tensorrt-llm", 37736), Degrees::make(1, 2, 4),
                                  RingMethod::kP2p)));
}

TEST(RulesRows, BL059PadsAndMasksOrNamesDegreesThatDivide) {
  // 33 x 45 x 45 tokens: 66825 % 8 = 1.
  const Problem pads = packed("sglang", 66825);
  const auto split = split_of(pads, Degrees::make(1, 1, 8), RingMethod::kP2p);
  ASSERT_TRUE(split);
  EXPECT_EQ(split->padded_rows - split->rows, 7);
  EXPECT_EQ(split->busiest_rows, 8354);
  const auto findings = check_degrees(packed("tensorrt-llm", 66825),
                                      Degrees::make(1, 1, 8), RingMethod::kP2p);
  ASSERT_EQ(codes(findings), Codes{"rows-divide"});
  EXPECT_NE(findings[0].suggestion.find("1, 3, 5"), std::string::npos)
      << findings[0].suggestion;
}

TEST(RulesRows, BL061CrossAttentionRowsAreNeverCut) {
  const Problem p = with_streams("tensorrt-llm", {{"video", StreamKind::kPacked, 32760},
                                                  {"text", StreamKind::kContext, 512},
                                                  {"image", StreamKind::kContext, 257}});
  for (const int u : {2, 4, 8})
    EXPECT_TRUE(legal(check_degrees(p, Degrees::make(1, 1, u), RingMethod::kP2p))) << u;
  EXPECT_EQ(split_of(p, Degrees::make(1, 1, 8), RingMethod::kP2p)->busiest_rows, 4095);
}

TEST(RulesRows, BL062EveryRequestLengthAboveAMultipleHasAPolicy) {
  for (const int u : {4, 8}) {
    for (int extra = 1; extra < u; ++extra) {
      const std::vector<StreamRows> streams = {{"image", StreamKind::kPacked, 4096},
                                               {"text", StreamKind::kJoint, 512 + extra},
                                               {"reference", StreamKind::kPacked, 4096}};
      const Degrees d = Degrees::make(1, 1, u);
      EXPECT_EQ(errors(with_streams("maxdiffusion", streams), d), Codes{"rows-stream"});
      for (const char* engine : {"sglang", "xdit", "vllm-omni", "hprun", "cache-dit"})
        EXPECT_TRUE(
            legal(check_degrees(with_streams(engine, streams), d, RingMethod::kP2p)))
            << engine << extra;
    }
  }
}

TEST(RulesRows, JointTextThatDoesNotDivideIsKeptWholeByEnginesThatCan) {
  const Problem p = with_streams(
      "xdit", {{"text", StreamKind::kJoint, 333}, {"image", StreamKind::kPacked, 4096}});
  const auto findings = check_degrees(p, Degrees::make(1, 2, 4), RingMethod::kP2p);
  EXPECT_TRUE(legal(findings));
  EXPECT_NE(find(findings, "rows-replicated"), nullptr);
  const auto split = split_of(p, Degrees::make(1, 2, 4), RingMethod::kP2p);
  EXPECT_EQ(split->busiest_rows, 512 + 333);
  EXPECT_EQ(split->padded_rows, 4096 + 333);
}

TEST(RulesRows, BL066AudioOfOneRowIsKeptWholePaddedOrRefused) {
  const std::vector<StreamRows> streams = {{"video", StreamKind::kPacked, 1024},
                                           {"audio", StreamKind::kJoint, 1}};
  const Degrees d = Degrees::make(1, 1, 2);
  EXPECT_TRUE(
      legal(check_degrees(with_streams("tensorrt-llm", streams), d, RingMethod::kP2p)));
  EXPECT_TRUE(legal(check_degrees(with_streams("sglang", streams), d, RingMethod::kP2p)));
  const auto findings =
      check_degrees(with_streams("cache-dit", streams), d, RingMethod::kP2p);
  ASSERT_EQ(codes(findings), Codes{"rows-short"});
  EXPECT_NE(findings[0].message.find("audio has 1 row, fewer than the 2 sequence ranks"),
            std::string::npos)
      << findings[0].message;
}

TEST(RulesRows, BL067ShortAudioBesideVideoIsNotCut) {
  const Problem p = with_streams("tensorrt-llm", {{"video", StreamKind::kPacked, 15360},
                                                  {"audio", StreamKind::kJoint, 126}});
  const auto split = split_of(p, Degrees::make(1, 1, 4), RingMethod::kP2p);
  ASSERT_TRUE(split);
  EXPECT_EQ(split->busiest_rows, 3840 + 126);
  EXPECT_EQ(split_of(p, Degrees::make(1, 1, 2), RingMethod::kP2p)->busiest_rows,
            7680 + 63);
}

// Wan's rule is 4k+1 frames, and 4 ranks must divide the rows: the nearest counts that
// satisfy both.
TEST(RulesRows, BL071SuggestsFramesThatSatisfyModelAndMesh) {
  Problem p = packed("tensorrt-llm", 0);
  p.model.title = "Wan";
  StreamSpec video = p.model.streams[0];
  video.pixels_h = video.pixels_w = 16;
  video.frame_group = 4;
  video.frame_first = 1;
  video.latent_group = 1;
  p.model.streams = {video};
  p.workload.height = 720;
  p.workload.width = 720;
  p.workload.frames = 81;  // 21 latent frames of 45 x 45: 42525 rows, odd
  p.rows = rows_of(p.model, p.workload);
  ASSERT_EQ(p.rows.total(), 42525);
  const auto findings = check_degrees(p, Degrees::make(1, 1, 4), RingMethod::kP2p);
  ASSERT_EQ(codes(findings), Codes{"rows-divide"});
  EXPECT_NE(findings[0].suggestion.find("77 frames (4k+1, rows divide by 4)"),
            std::string::npos)
      << findings[0].suggestion;
  // 45 x 45 is odd in every frame: 64 ranks need 64k latent frames, further than the
  // search looks.
  p.topology = nvswitch(64);
  p.model = dit(64, 64 * 64);
  p.model.streams = {video};
  EXPECT_NE(
      check_degrees(p, Degrees::make(1, 1, 64), RingMethod::kP2p)[0].suggestion.find(
          "no 4k+1 frame count within 12 steps of 81"),
      std::string::npos);
}

TEST(RulesRows, BL079PadsOnlyForModelsThatMask) {
  Problem p = packed("vllm-omni", 32762);
  p.model.heads = p.model.kv_heads = 40;
  p.model.masks_padding = false;
  p.engine.head_modes.resize(2);  // strict and auto_pad
  const auto findings = check_degrees(p, Degrees::make(1, 1, 4), RingMethod::kP2p);
  ASSERT_FALSE(legal(findings));
  EXPECT_NE(findings[0].message.find("builds no mask"), std::string::npos)
      << findings[0].message;
  p.model.masks_padding = true;
  EXPECT_TRUE(legal(check_degrees(p, Degrees::make(1, 1, 4), RingMethod::kP2p)));
  Problem sglang = packed("sglang", 32762);
  sglang.model.masks_padding = false;
  EXPECT_EQ(errors(sglang, Degrees::make(1, 1, 4)), Codes{"rows-mask"});
}

TEST(RulesRows, PaddingBesideARingNeedsAMaskTheRingTakes) {
  Problem p = packed("vllm-omni", 14310);
  EXPECT_TRUE(legal(check_degrees(p, Degrees::make(1, 1, 4), RingMethod::kP2p)));
  const auto findings = check_degrees(p, Degrees::make(1, 4, 1), RingMethod::kP2p);
  ASSERT_FALSE(legal(findings));
  EXPECT_NE(findings[0].message.find("key mask"), std::string::npos)
      << findings[0].message;
}

// With a ring, valid keys of rank r are min(chunk, max(0, valid - r * chunk)): padding at
// the global tail only.
TEST(RulesRows, BL085PaddingStandsAtTheGlobalTail) {
  const Problem tail = packed("sglang", 14310);
  EXPECT_TRUE(legal(check_degrees(tail, Degrees::make(1, 4, 1), RingMethod::kP2p)));
  EXPECT_EQ(split_of(tail, Degrees::make(1, 4, 1), RingMethod::kP2p)->padded_rows, 14312);
  const std::vector<StreamRows> text_first = {{"text", StreamKind::kJoint, 510},
                                              {"image", StreamKind::kPacked, 4096}};
  EXPECT_EQ(errors(with_streams("sglang", text_first), Degrees::make(1, 4, 1)),
            Codes{"rows-tail"});
  EXPECT_TRUE(legal(check_degrees(with_streams("sglang", text_first),
                                  Degrees::make(1, 1, 4), RingMethod::kP2p)));
  const std::vector<StreamRows> text_last = {{"image", StreamKind::kPacked, 4096},
                                             {"text", StreamKind::kJoint, 510}};
  EXPECT_TRUE(legal(check_degrees(with_streams("sglang", text_last),
                                  Degrees::make(1, 4, 1), RingMethod::kP2p)));
}

TEST(RulesRows, EqualShapeFabricsRefuseUnevenRows) {
  Problem p = packed("hprun", 37739);
  p.engine.head_modes.resize(1);  // uneven shares alone
  EXPECT_TRUE(legal(check_degrees(p, Degrees::make(1, 1, 4), RingMethod::kP2p)));
  p.topology = trn2();
  EXPECT_EQ(errors(p, Degrees::make(1, 1, 4)), Codes{"fabric-uneven"});
  EXPECT_TRUE(legal(
      check_degrees(packed("hprun", 37740), Degrees::make(1, 1, 4), RingMethod::kP2p)));
}

TEST(RulesRows, FewerPackedRowsThanRanksAreRefused) {
  const auto findings =
      check_degrees(packed("sglang", 5), Degrees::make(1, 1, 8), RingMethod::kP2p);
  EXPECT_EQ(codes(findings), Codes{"rows-short"});
}

TEST(RulesRows, NeuronPluginPadsToTwoRowsARank) {
  Problem p = packed("vllm-omni-neuron", 37739);
  p.topology = trn2();
  EXPECT_EQ(split_of(p, Degrees::make(1, 8, 1), RingMethod::kAllGather)->padded_rows,
            37744);
  EXPECT_EQ(split_of(p, Degrees::make(1, 1, 1), RingMethod::kAllGather)->padded_rows,
            37739);
}

// 56 heads of 128: fused q, k, v rows have stride 21504; 2^31 / 21504 = 99864.4.
TEST(RulesRows, BL118RowsJustUnderAndOverThirtyTwoBits) {
  Problem p = problem_of(dit(56, 1024, 5376), "sglang", nvswitch(8));
  p.engine.stack.attention_kernel = "sage";
  const Degrees one = Degrees::make(1, 1, 1);
  p.rows.streams[0].rows = 99864;
  EXPECT_TRUE(check_degrees(p, one, RingMethod::kP2p).empty());
  p.rows.streams[0].rows = 99865;
  const auto findings = check_degrees(p, one, RingMethod::kP2p);
  ASSERT_EQ(codes(findings), Codes{"int-width"});
  EXPECT_NE(findings[0].suggestion.find("at most 99864 rows a rank"), std::string::npos)
      << findings[0].suggestion;
  EXPECT_NE(findings[0].suggestion.find("at least 2"), std::string::npos)
      << findings[0].suggestion;
  // More sequence or tensor parallelism lifts it; kernels of unknown width are a warning,
  // 64-bit ones nothing.
  EXPECT_TRUE(legal(check_degrees(p, Degrees::make(2, 1, 1), RingMethod::kP2p)));
  EXPECT_TRUE(legal(check_degrees(p, Degrees::make(1, 1, 2), RingMethod::kP2p)));
  p.engine.stack.attention_kernel = "fa";
  EXPECT_EQ(codes(check_degrees(p, one, RingMethod::kP2p), Severity::kWarning),
            Codes{"int-width"});
  p.engine.index_bits = 64;
  p.engine.attention_kernels[0].index_bits = 64;
  EXPECT_TRUE(check_degrees(p, one, RingMethod::kP2p).empty());
}

// A 28672-wide layer (gate and up of 14336): 74898 rows.
TEST(RulesRows, WideLayersReachTheLimitFirst) {
  Problem p = problem_of(minimax_h3(), "sglang", nvswitch(8));
  p.rows.streams[0].rows = 74898;
  EXPECT_TRUE(check_degrees(p, Degrees::make(1, 1, 1), RingMethod::kP2p).empty());
  p.rows.streams[0].rows = 74899;
  EXPECT_EQ(codes(check_degrees(p, Degrees::make(1, 1, 1), RingMethod::kP2p),
                  Severity::kWarning),
            Codes{"int-width"});
}

}  // namespace
}  // namespace hpplan::testing
