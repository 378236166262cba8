// Published texts as problems: names, numbers and layouts, and what cannot be told.
#include "planner/match.h"

#include <gtest/gtest.h>

#include "planner/row_prediction.h"
#include "planner/spec/reading_rules.h"

namespace hpplan {
namespace {

MeasuredGroup group() {
  MeasuredGroup g;
  g.id = "g";
  g.model = "MiniMax-H3 (33B)";
  g.software = "SGLang main";
  g.unit = "s";
  g.workload = {{"resolution", "864x480"}, {"frames", "124"}, {"steps", "40"}};
  g.hardware = {{"chip", "NVIDIA H200 141GB"}, {"interconnect", "NVLink"}};
  return g;
}

MeasuredRow row(int tp, int ulysses, int ring = 1) {
  MeasuredRow r;
  r.tp = tp;
  r.ulysses = ulysses;
  r.ring = ring;
  r.devices = tp * ulysses * ring;
  r.value = 10;
  return r;
}

MatchedRow matched(const MeasuredGroup& g, const MeasuredRow& r) {
  static const Catalog catalog;
  Matcher matcher(catalog);
  const auto m = matcher.match(g, r, {});
  if (const auto* none = std::get_if<Unmatched>(&m))
    throw std::runtime_error("not matched: " + none->reason);
  return std::get<MatchedRow>(m);
}

std::string reason(const MeasuredGroup& g, const MeasuredRow& r) {
  static const Catalog catalog;
  Matcher matcher(catalog);
  const auto m = matcher.match(g, r, {});
  const auto* none = std::get_if<Unmatched>(&m);
  return none == nullptr ? "" : none->reason;
}

TEST(Match, ModelMachineEngineAndUnit) {
  const MatchedRow m = matched(group(), row(2, 4));
  EXPECT_EQ(m.problem->model.name, "minimax-h3");
  EXPECT_EQ(m.problem->topology.name, "hgx-h200");
  EXPECT_EQ(m.problem->engine.name, "sglang");
  EXPECT_DOUBLE_EQ(m.seconds, 10.0 / 40);
  EXPECT_TRUE(m.per_step);
  EXPECT_EQ(m.degrees, Degrees::make(2, 1, 4));
}

TEST(Match, Units) {
  MeasuredGroup g = group();
  const auto seconds = [&](const char* unit) {
    g.unit = unit;
    return matched(g, row(1, 8)).seconds;
  };
  EXPECT_DOUBLE_EQ(seconds("s/step"), 10);
  EXPECT_DOUBLE_EQ(seconds("ms/step"), 0.01);
  EXPECT_DOUBLE_EQ(seconds("ms"), 0.01 / 40);
  EXPECT_DOUBLE_EQ(seconds("iters/s"), 0.1);
  g.unit = "furlongs";
  EXPECT_NE(reason(g, row(1, 8)).find("neither a time nor a rate"), std::string::npos);
}

TEST(Match, TheSubgroupGoesBeforeTheGroup) {
  MeasuredGroup g = group();
  g.workload["steps"] = "20 or 30";
  MeasuredRow r = row(1, 8);
  r.subgroup = "fp8 1344x768 30 steps";
  const MatchedRow m = matched(g, r);
  EXPECT_EQ(m.problem->workload.width, 1344);
  EXPECT_EQ(m.problem->workload.dtype, DType::kFp8);
  EXPECT_DOUBLE_EQ(m.seconds, 10.0 / 30);
}

TEST(Match, RowsThatAreOnlyAbout) {
  MeasuredGroup g = group();
  g.workload["seq_tokens"] = "about 72k (stated)";
  EXPECT_EQ(matched(g, row(1, 8)).problem->rows.total(), 72000);
}

TEST(Match, AModelOfDimensionsAlone) {
  MeasuredGroup g = group();
  g.model = "Some-DiT 7B";
  EXPECT_NE(reason(g, row(1, 8)).find("heads, head_dim, hidden and blocks"),
            std::string::npos);
  g.workload = {{"heads", "24"},
                {"head_dim", "128"},
                {"hidden", "3072"},
                {"blocks", "30"},
                {"seq_tokens", "32768"}};
  const MatchedRow m = matched(g, row(1, 8));
  EXPECT_EQ(m.problem->model.heads, 24);
  EXPECT_EQ(m.problem->model.blocks.at(0).mlp_width, 4 * 3072);
  EXPECT_EQ(m.problem->rows.total(), 32768);
  EXPECT_FALSE(m.per_step);  // no step count: only ratios mean something
  EXPECT_GT(predict_row(m).step.value, 0);
}

TEST(Match, TheHostClassIsAnInput) {
  MeasuredGroup g = group();
  g.model = "FLUX.1-dev";
  g.workload = {{"resolution", "1024x1024"}, {"steps", "28"}};
  g.hardware = {{"chip", "NVIDIA L20"}, {"interconnect", "PCIe"}};
  g.software = "cache-dit";
  EXPECT_EQ(matched(g, row(1, 8)).problem->topology.peer_access, PeerAccess::kWorks);
  const double works = predict_row(matched(g, row(1, 8))).step.value;
  g.hardware["peer_access"] = "all-to-all-collapses";
  EXPECT_EQ(matched(g, row(1, 8)).problem->topology.name, "l20-x8-a2a-slow");
  EXPECT_GT(predict_row(matched(g, row(1, 8))).step.value, works);
  g.hardware["peer_access"] = "none";
  EXPECT_NE(reason(g, row(1, 8)).find("peer_access"), std::string::npos);
  // A machine by its own name needs no chip.
  g.hardware = {{"topology", "l40s-x8-no-p2p"}};
  EXPECT_EQ(matched(g, row(1, 8)).problem->topology.peer_access, PeerAccess::kNone);
  // An instance type is an alias of a machine.
  g.hardware = {{"chip", "something"}, {"instance", "p5.48xlarge"}};
  EXPECT_EQ(matched(g, row(1, 8)).problem->topology.name, "hgx-h100");
}

TEST(Match, LayoutsOfOtherAxesAreNotGuessed) {
  MeasuredRow r = row(1, 4);
  r.other = {{"pipefusion", "2"}};
  EXPECT_NE(reason(group(), r).find("no axis of a mesh"), std::string::npos);
  r.other = {{"agkv", "2"}};
  r.devices = 8;
  EXPECT_EQ(matched(group(), r).degrees, Degrees::make(1, 2, 4));
  EXPECT_EQ(matched(group(), r).method, RingMethod::kAllGather);
  r.devices = 16;
  EXPECT_NE(reason(group(), r).find("8 ranks on 16 devices"), std::string::npos);
}

TEST(Match, FailuresForWantOfMemoryAndOthers) {
  MeasuredRow r = row(1, 8);
  r.value.reset();
  r.status = "oom";
  EXPECT_TRUE(matched(group(), r).failed);
  r.status = "failed";
  EXPECT_NE(reason(group(), r).find("another reason"), std::string::npos);
}

TEST(Match, SpreadWeightsTakeLessMemory) {
  MeasuredRow r = row(1, 4);
  const MatchedRow whole = matched(group(), r);
  r.other = {{"fsdp", "4"}};
  const MatchedRow spread = matched(group(), r);
  // 61.7 GiB of weights over four ranks: 46 GiB less.
  EXPECT_NEAR((memory_of_row(whole).denoise - memory_of_row(spread).denoise).value / kGiB,
              61.7 * 3 / 4, 1);
  EXPECT_GE(predict_row(spread).step, predict_row(whole).step);
}

TEST(Match, AnAttentionCall) {
  MeasuredGroup g = group();
  g.model = "attention operator";
  g.unit = "iters/s";
  g.workload = {{"op", "attention forward only"}, {"batch", "2"}, {"causal", "true"}};
  MeasuredRow r = row(1, 2, 4);
  r.subgroup = "128K h32 d64 basic";
  const MatchedRow m = matched(g, r);
  ASSERT_TRUE(m.op);
  EXPECT_EQ(m.op->heads, 32);
  EXPECT_EQ(m.op->head_dim, 64);
  EXPECT_EQ(m.op->rows, 131072);
  EXPECT_EQ(m.op->batch, 2);
  EXPECT_TRUE(m.op->causal);
  EXPECT_FALSE(m.balanced);
  // A causal mask dealt evenly is nearly half the work of one in order, on four ring
  // ranks: 2 chunks of 3.5.
  r.subgroup = "128K h32 d64 zigzag";
  const MatchedRow even = matched(g, r);
  EXPECT_TRUE(even.balanced);
  const double share =
      predict_row(even).breakdown.attention / predict_row(m).breakdown.attention;
  EXPECT_NEAR(share, 2 / 3.5, 0.01);
  g.workload["op"] = "training step";
  EXPECT_NE(reason(g, r).find("operator"), std::string::npos);
}

TEST(ReadingRules, FirstFieldFirstRuleAndConditions) {
  const auto rules = read_reading_rules(
      parse_yaml("- {in: [a, b], match: '(\\d+)x(\\d+)', set: {w: $1, h: $2}}\n"
                 "- {in: [b], when: {c: '^yes$'}, match: 'z', set: {w: '9', z: $0}}\n",
                 "r.yaml"),
      "rules");
  Attributes a;
  apply(rules, {{"a", "no"}, {"b", "3x4 Z"}, {"c", "YES"}}, a);
  EXPECT_EQ(a.at("w"), "3");  // set once, kept
  EXPECT_EQ(a.at("h"), "4");
  EXPECT_EQ(a.at("z"), "Z");
  Attributes none;
  apply(rules, {{"b", "z"}, {"c", "no"}}, none);
  EXPECT_TRUE(none.empty());
  EXPECT_THROW(
      read_reading_rules(parse_yaml("- {in: [a], match: '(', set: {w: x}}\n", "r.yaml"),
                         "rules"),
      InputError);
  EXPECT_THROW(
      read_reading_rules(parse_yaml("- {in: [a], match: x, sett: {w: x}}\n", "r.yaml"),
                         "rules"),
      InputError);
}

}  // namespace
}  // namespace hpplan
