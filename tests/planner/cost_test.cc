// Step times: against published figures nothing was fitted to, and against what each term
// must do.
#include "planner/cost.h"

#include <gtest/gtest.h>

#include "planner/rules.h"
#include "tests/planner/problems.h"

namespace hpplan {
namespace {

Prediction predicted(const Problem& p, const Degrees& degrees,
                     RingMethod method = RingMethod::kP2p) {
  const auto split = split_of(p, degrees, method);
  if (!split) throw std::runtime_error("illegal layout in a test: " + degrees.str());
  auto mesh = engine_mesh(p, degrees);
  if (!mesh) mesh = Mesh::from_order(degrees, p.engine.rank_order);
  return predict(p, degrees, method, *split, paths_of(p, *mesh, method));
}

Problem with_rows(Problem p, std::int64_t rows) {
  p.workload.seq_len = rows;
  p.rows = rows_of(p.model, p.workload);
  return p;
}

// MiniMax-H3 at 864x480 (15,400 rows) on 8 x H200 under SGLang: (seconds of a request
// - 1.24 fixed) / 40 steps.
TEST(Cost, MiniMaxH3OnEightH200IsWithin6PercentWithNothingFitted) {
  const Problem p =
      with_rows(testing::problem_named("minimax-h3", "hgx-h200", "sglang"), 15400);
  const struct {
    Degrees degrees;
    double request_s;
  } runs[] = {{Degrees::make(1, 1, 8), 10.08},
              {Degrees::make(2, 1, 4), 11.08},
              {Degrees::make(4, 1, 2), 11.59},
              {Degrees::make(8, 1, 1), 13.09}};
  double before = 0;
  for (const auto& run : runs) {
    const double step = predicted(p, run.degrees).step.value;
    EXPECT_NEAR(step / ((run.request_s - 1.24) / 40), 1, 0.06) << run.degrees.str();
    EXPECT_GT(step, before) << run.degrees.str();  // and in that order
    before = step;
  }
}

TEST(Cost, PartsSumToTheStep) {
  const Problem p = testing::problem_named("wan2.1-14b", "l40-x8-a2a-slow", "xdit");
  for (const Degrees& d : {Degrees::make(1, 1, 1), Degrees::make(1, 2, 2, 2),
                           Degrees::make(1, 8, 1), Degrees::make(1, 1, 8)}) {
    const Prediction x = predicted(p, d);
    const CostBreakdown& b = x.breakdown;
    EXPECT_NEAR(
        (b.compute + b.attention + b.tp + b.ulysses + b.ring_exposed + b.cfg + b.overhead)
            .value,
        x.step.value, 1e-12);
    EXPECT_LT(x.low, x.step);
    EXPECT_GT(x.high, x.step);
  }
}

// All-reduces a block: 1 with a parallel MLP, 2 plain, 3 with cross-attention.
TEST(Cost, AllReducesByKindOfBlock) {
  Problem p =
      with_rows(testing::problem_named("wan2.1-14b", "hgx-h200", "sglang"), 32768);
  p.model.qk_norm = QkNorm::kHead;  // a norm over all heads would add one of its own
  const auto tp_seconds = [&](bool cross, bool parallel) {
    p.model.blocks[0].cross_attention = cross;
    p.model.blocks[0].parallel_mlp = parallel;
    return predicted(p, Degrees::make(4, 1, 1)).breakdown.tp.value;
  };
  const double plain = tp_seconds(false, false);
  EXPECT_NEAR(tp_seconds(false, true) / plain, 0.5, 1e-9);
  EXPECT_NEAR(tp_seconds(true, false) / plain, 1.5, 1e-9);
}

// 56 heads: tp 8 leaves 7, ulysses 4 makes that 2, 2, 2, 1. The busiest rank sets the
// time: 8/7 of an even share.
TEST(Cost, PaddedHeadsCostWhatTheBusiestRankDoes) {
  Problem p =
      with_rows(testing::problem_on(with_nodes(testing::topology_named("hgx-h200"), 4),
                                    "minimax-h3", "diffusers"),
                37760);
  const Degrees d = Degrees::make(8, 1, 4);
  p.device.attention.tile_rows = 1;  // no waves, so that heads alone count
  p.device.units = 1;
  const double padded = predicted(p, d).breakdown.attention.value;
  p.ablation.head_padding = false;
  EXPECT_NEAR(padded / predicted(p, d).breakdown.attention.value, 8.0 / 7, 1e-3);
}

TEST(Cost, RingHidesItsTransferBehindAttention) {
  const Problem p =
      with_rows(testing::problem_named("wan2.1-14b", "hgx-h200", "hprun"), 65536);
  const CostBreakdown ring = predicted(p, Degrees::make(1, 8, 1)).breakdown;
  EXPECT_GT(ring.ring_hidden.value, 0);
  Problem no_merge = p;
  no_merge.ablation.ring_merge = false;
  // 65,536 rows leave 8,192 a chunk: longer than the shift of its K and V, so what is
  // exposed is the merge alone.
  EXPECT_NEAR(predicted(no_merge, Degrees::make(1, 8, 1)).breakdown.ring_exposed.value, 0,
              1e-9);
  EXPECT_GT(ring.ring_exposed.value, 0);
  // A gather hides nothing.
  const CostBreakdown gather =
      predicted(p, Degrees::make(1, 8, 1), RingMethod::kAllGather).breakdown;
  EXPECT_EQ(gather.ring_hidden.value, 0);
  EXPECT_GT(gather.ring_exposed.value, 0);
}

TEST(Cost, GuidanceBranchesOnTheirOwnRanksHalveTheWork) {
  const Problem p =
      with_rows(testing::problem_named("wan2.1-14b", "hgx-h200", "sglang"), 65536);
  ASSERT_EQ(p.workload.branches, 2);
  const double one = predicted(p, Degrees::make(1, 1, 1)).breakdown.attention.value;
  EXPECT_NEAR(predicted(p, Degrees::make(1, 1, 1, 2)).breakdown.attention.value / one,
              0.5, 0.02);
}

// Host dispatch bounds short steps, and its corner is soft: (device^4 + host^4)^(1/4).
TEST(Cost, HostDispatch) {
  Problem p = with_rows(testing::problem_named("flux.1-dev", "hgx-h200", "xdit"), 256);
  const Prediction x = predicted(p, Degrees::make(1, 1, 1));
  EXPECT_GT(x.breakdown.overhead.value, 0.5 * x.step.value);
  p.ablation.host_dispatch = false;
  EXPECT_EQ(predicted(p, Degrees::make(1, 1, 1)).breakdown.overhead.value, 0);
}

// On trn2 four strided tp groups share each link where a contiguous one has its own: the
// same degrees cost more.
TEST(Cost, PlacementIsCost) {
  const Problem p = testing::problem_named("minimax-h3", "trn2.48xl", "diffusers",
                                           FabricRules::kCompiled);
  const Degrees d = Degrees::make(8, 1, 4);
  const auto split = split_of(p, d, RingMethod::kAllGather);
  ASSERT_TRUE(split);
  const auto tp_seconds = [&](const std::vector<Axis>& order) {
    const Mesh mesh = Mesh::from_order(d, order);
    return predict(p, d, RingMethod::kAllGather, *split,
                   paths_of(p, mesh, RingMethod::kAllGather))
        .breakdown.tp.value;
  };
  EXPECT_GT(tp_seconds({Axis::kUlysses, Axis::kTp}),
            1.3 * tp_seconds({Axis::kTp, Axis::kUlysses}));
}

TEST(Cost, APredictionRestsOnItsWeakestNumber) {
  Problem p =
      with_rows(testing::problem_named("minimax-h3", "hgx-h200", "sglang"), 15400);
  p.engine.stack.source = Source::kMeasured;
  p.device.peak_source = p.device.gemm.source = p.device.attention.source =
      Source::kMeasured;
  EXPECT_EQ(predicted(p, Degrees::make(1, 1, 1)).source, Source::kMeasured);
  const double alone = predicted(p, Degrees::make(1, 1, 1)).high /
                       predicted(p, Degrees::make(1, 1, 1)).step;
  // Its all-to-all is a published curve.
  const Prediction spread = predicted(p, Degrees::make(1, 1, 8));
  EXPECT_EQ(spread.source, Source::kPublished);
  EXPECT_GT(spread.high / spread.step, alone);
}

}  // namespace
}  // namespace hpplan
