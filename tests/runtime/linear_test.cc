// Linear layers and norms whose width is divided, against the whole layer in float64; and
// the pure splits of heads and rows.
#include "runtime/linear.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "planner/spec/error.h"
#include "tests/support/run_ranks.h"

namespace hpplan::runtime {
namespace {

Mesh tp_mesh(int n) { return Mesh::from_order(Degrees::make(n, 1, 1), {Axis::kTp}); }

double distance(const at::Tensor& got, const at::Tensor& want) {
  return ((got.to(at::kDouble) - want.to(at::kDouble)).norm() /
          want.to(at::kDouble).norm())
      .item<double>();
}

at::Tensor wave(at::IntArrayRef shape, double step) {
  std::int64_t n = 1;
  for (const std::int64_t d : shape) n *= d;
  return at::sin(at::arange(n, at::kDouble) * step).view(shape);
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(FusedWeight, BL038EveryPartIsDividedOnItsOwn) {
  const std::vector<std::int64_t> parts = {8, 8, 8, 20, 20};  // q, k, v, gate, up
  const at::Tensor whole = wave({64, 3}, 1);
  std::vector<at::Tensor> shards;
  for (int r = 0; r < 4; ++r) {
    shards.push_back(shard(whole, 0, parts, 4, r));
    EXPECT_EQ(shards.back().size(0), 16);
    EXPECT_TRUE(shards.back().narrow(0, 2, 2).equal(
        whole.narrow(0, 8 + 2 * r, 2)));  // its part of k
  }
  EXPECT_TRUE(unshard(shards, 0, parts).equal(whole));
  EXPECT_NE(refusal([&] { (void)shard(whole, 0, parts, 8, 0); }).find("part 3"),
            std::string::npos);
}

TEST(FusedWeight, BL039GateAndUpRows) {
  for (int r = 0; r < 2; ++r)
    EXPECT_EQ(shard_ranges({18432, 18432}, 2, r),
              (std::vector<Range>{{r * 9216, (r + 1) * 9216},
                                  {18432 + r * 9216, 18432 + (r + 1) * 9216}}));
}

TEST(FusedWeight, BL037RowParallelColumnsFollowTheirInput) {
  EXPECT_EQ(shard_ranges({3072, 12288}, 2, 0),
            (std::vector<Range>{{0, 1536}, {3072, 9216}}));
  EXPECT_EQ(shard_ranges({3072, 12288}, 2, 1),
            (std::vector<Range>{{1536, 3072}, {9216, 15360}}));
}

class LinearOver : public testing::TestWithParam<int> {};

// Attention and MLP of one block in one output projection: column parts, then row parts,
// one sum, no gather.
TEST_P(LinearOver, BL037ColumnThenRowWithOneSum) {
  const int n = GetParam();
  const std::int64_t width = 24, ffn = 48, hidden = 10;
  const at::Tensor x = wave({2, 5, hidden}, 0.9), up = wave({width + ffn, hidden}, 0.7),
                   up_bias = wave({width + ffn}, 0.3);
  const at::Tensor down = wave({hidden, width + ffn}, 1.1),
                   down_bias = wave({hidden}, 0.5);
  const at::Tensor want =
      at::linear(at::relu(at::linear(x, up, up_bias)), down, down_bias);
  run_ranks(tp_mesh(n), [&](const DeviceMesh& mesh) {
    const Group& tp = mesh.group(Axis::kTp);
    const std::vector<std::int64_t> parts = {width, ffn};
    const ColumnLinear column(shard(up, 0, parts, n, tp.rank()),
                              shard(up_bias, 0, parts, n, tp.rank()));
    const RowLinear row(tp, shard(down, 1, parts, n, tp.rank()), down_bias);
    const at::Tensor inner = at::relu(column(x));
    EXPECT_EQ(inner.size(-1), (width + ffn) / n);
    EXPECT_LE(distance(row(inner), want), 1e-12);
    EXPECT_EQ(mesh.ledger().counts()["tp/all_reduce"], n > 1 ? 1 : 0);
    EXPECT_EQ(mesh.ledger().counts().size(), n > 1 ? 1U : 0U);
  });
}

TEST_P(LinearOver, BL044NormsOverADividedWidth) {
  const int n = GetParam();
  const at::Tensor x = wave({3, 24}, 0.37) + 0.4, weight = wave({24}, 0.2) + 2,
                   bias = wave({24}, 0.6);
  const at::Tensor rms = x * at::rsqrt(x.square().mean(-1, true) + 1e-5) * weight;
  const at::Tensor layer = at::layer_norm(x, {24}, weight, bias, 1e-5);
  run_ranks(tp_mesh(n), [&](const DeviceMesh& mesh) {
    const Group& tp = mesh.group(Axis::kTp);
    const auto own = [&](const at::Tensor& t) {
      return t.chunk(n, -1)[tp.rank()].contiguous();
    };
    EXPECT_LE(distance(sharded_rms_norm(tp, own(x), own(weight), 1e-5), own(rms)), 1e-12);
    EXPECT_LE(distance(sharded_layer_norm(tp, own(x), own(weight), own(bias), 1e-5),
                       own(layer)),
              1e-12);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, LinearOver, testing::Values(1, 2, 3, 4),
                         [](const auto& info) {
                           return concat("Ranks", info.param);
                         });

TEST(Linear, BL044LocalNormWouldGiveOnes) {
  run_ranks(tp_mesh(2), [](const DeviceMesh& mesh) {
    const at::Tensor x = at::full({1, 4}, mesh.rank() == 0 ? 1.0 : 3.0);
    const at::Tensor y = sharded_rms_norm(mesh.group(Axis::kTp), x, {}, 0);
    EXPECT_NEAR(y[0][0].item<double>(), mesh.rank() == 0 ? 0.4472136 : 1.3416408, 1e-6);
  });
}

// 16-bit rows are normed in fp32 and rounded once.
TEST(Linear, SixteenBitNorms) {
  run_ranks(tp_mesh(2), [](const DeviceMesh& mesh) {
    const at::Tensor x = (wave({2, 16}, 0.3) + 3).to(at::kBFloat16);
    const at::Tensor wide = x.to(at::kDouble);
    const at::Tensor want = wide * at::rsqrt(wide.square().mean(-1, true) + 1e-6);
    const at::Tensor got =
        sharded_rms_norm(mesh.group(Axis::kTp), x.chunk(2, -1)[mesh.rank()], {}, 1e-6);
    EXPECT_EQ(got.scalar_type(), at::kBFloat16);
    EXPECT_LE(distance(got, want.chunk(2, -1)[mesh.rank()]), 3e-3);
  });
}

// The column bias is divided with its rows, the row bias is whole and added once.
TEST(Linear, BL041BiasesByRole) {
  run_ranks(tp_mesh(2), [](const DeviceMesh& mesh) {
    const Group& tp = mesh.group(Axis::kTp);
    const at::Tensor bias = wave({6}, 1);
    const ColumnLinear column(at::zeros({3, 2}, at::kDouble),
                              shard(bias, 0, {6}, 2, tp.rank()));
    EXPECT_TRUE(tp.all_gather(column(at::zeros({1, 2}, at::kDouble)), 1)
                    .equal(bias.unsqueeze(0)));
    const RowLinear row(tp, at::zeros({6, 1}, at::kDouble), bias);
    EXPECT_TRUE(row(at::zeros({1, 1}, at::kDouble)).equal(bias.unsqueeze(0)));
  });
}

TEST(Linear, BL043TwoProductsInOneSumAddEachBiasOnce) {
  run_ranks(tp_mesh(2), [](const DeviceMesh& mesh) {
    const Group& tp = mesh.group(Axis::kTp);
    const at::Tensor zero = at::zeros({2, 3}, at::kDouble);
    const RowLinear one(tp, zero, at::full({2}, 1.0, at::kDouble)),
        ten(tp, zero, at::full({2}, 10.0, at::kDouble));
    const at::Tensor x = at::ones({1, 3}, at::kDouble);
    const at::Tensor y = RowLinear::sum_of({&one, &ten}, {x, x});
    EXPECT_TRUE(y.equal(at::full({1, 2}, 11.0, at::kDouble)));
    EXPECT_EQ(mesh.ledger().counts().at("tp/all_reduce"), 1);
  });
}

// Twelve chunks of a modulation whose rows are cut four ways: chunked after the gather.
TEST(Linear, BL047ModulationIsChunkedAfterTheGather) {
  const std::int64_t hidden = 10;
  const at::Tensor weight = wave({12 * hidden, 4}, 0.8), x = wave({1, 4}, 0.4);
  const at::Tensor want = at::linear(x, weight);
  run_ranks(tp_mesh(4), [&](const DeviceMesh& mesh) {
    const Group& tp = mesh.group(Axis::kTp);
    const ColumnLinear slab(shard(weight, 0, {12 * hidden}, 4, tp.rank()), {});
    EXPECT_EQ(slab(x).size(1), 3 * hidden);
    const auto chunks = tp.all_gather(slab(x), 1).chunk(12, 1);
    for (int i = 0; i < 12; ++i)
      EXPECT_TRUE(at::allclose(chunks[i], want.narrow(1, i * hidden, hidden), 1e-12));
  });
}

using Ranges = std::vector<Range>;

TEST(Heads, BL026KvHeadsArePaddedFirst) {
  const HeadSplit s = split_heads(28, 7, 2, UnevenHeads::kPad);
  EXPECT_EQ(s.padded_kv_heads, 8);
  EXPECT_EQ(s.padded_heads, 32);
  EXPECT_EQ(s.q, (Ranges{{0, 16}, {16, 32}}));
  EXPECT_EQ(s.kv, (Ranges{{0, 4}, {4, 8}}));
  EXPECT_EQ(s.real_heads(0), 16);
  EXPECT_EQ(s.real_heads(1), 12);
  EXPECT_NE(refusal([] { (void)split_heads(28, 8, 2, UnevenHeads::kPad); }), "");
}

TEST(Heads, BL031SplitIsAFunctionOfThisLayerAlone) {
  (void)split_heads(6, 3, 2, UnevenHeads::kUneven);
  EXPECT_EQ(split_heads(12, 12, 4, UnevenHeads::kUneven).q,
            (Ranges{{0, 3}, {3, 6}, {6, 9}, {9, 12}}));
  const HeadSplit s = split_heads(6, 3, 2, UnevenHeads::kUneven);
  EXPECT_EQ(s.kv, (Ranges{{0, 2}, {2, 3}}));
  EXPECT_EQ(s.q, (Ranges{{0, 4}, {4, 6}}));
  EXPECT_NE(refusal([] { (void)split_heads(6, 3, 2, UnevenHeads::kRefuse); }), "");
  EXPECT_NE(refusal([] { (void)split_heads(3, 3, 4, UnevenHeads::kUneven); }), "");
}

TEST(Heads, BL033KvHeadsAreReplicatedAboveTheirNumber) {
  const HeadSplit s = split_heads(128, 8, 16, UnevenHeads::kRefuse);
  for (int r = 0; r < 16; ++r) {
    EXPECT_EQ(s.q[r], (Range{8 * r, 8 * r + 8}));
    EXPECT_EQ(s.kv[r], (Range{r / 2, r / 2 + 1}));
  }
}

TEST(Heads, BL034NoRankIsLeftWithoutKvHeads) {
  const HeadSplit s = split_heads(64, 2, 8, UnevenHeads::kRefuse);
  for (int r = 0; r < 8; ++r) EXPECT_EQ(s.kv[r], (Range{r / 4, r / 4 + 1}));
}

TEST(Heads, PaddedAndUnevenHeadsOfSeven) {
  const HeadSplit padded = split_heads(7, 7, 4, UnevenHeads::kPad);
  EXPECT_EQ(padded.padded_heads, 8);
  EXPECT_EQ(padded.real_heads(3), 1);
  const HeadSplit uneven = split_heads(7, 7, 4, UnevenHeads::kUneven);
  EXPECT_EQ(uneven.q, (Ranges{{0, 2}, {2, 4}, {4, 6}, {6, 7}}));
  EXPECT_FALSE(uneven.padded());
}

TEST(RowSplit, BL064PadsAtTheGlobalTail) {
  for (const auto& [parts, each] :
       {std::pair{2, 4212}, std::pair{4, 2106}, std::pair{8, 1053}}) {
    const RowSplit s = RowSplit::padded_to(8423, parts);
    for (int p = 0; p < parts; ++p) {
      EXPECT_EQ(s.rows[p], each);
      EXPECT_EQ(s.valid[p], each - (p + 1 == parts ? 1 : 0));
    }
  }
  EXPECT_EQ(RowSplit::uneven(8423, 4).rows,
            (std::vector<std::int64_t>{2106, 2106, 2106, 2105}));
}

TEST(RowSplit, BL081ValidRowsPerSource) {
  EXPECT_EQ(RowSplit::of_padded(1024, 1000, 4).valid,
            (std::vector<std::int64_t>{256, 256, 256, 232}));
  EXPECT_EQ(RowSplit::of_padded(128, 65, 4).valid,
            (std::vector<std::int64_t>{32, 32, 1, 0}));
  EXPECT_NE(refusal([] { (void)RowSplit::of_padded(10, 9, 4); }), "");
}

TEST(RowSplit, BL074NothingIsRoundedDown) {
  const RowSplit s = RowSplit::padded_to(7, 2);
  EXPECT_EQ(s.total(), 8);
  EXPECT_EQ(s.total_valid(), 7);
}

}  // namespace
}  // namespace hpplan::runtime
