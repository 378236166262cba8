// Attention over ulysses x ring (x tp) against float64 attention over the whole tensors
// on one rank, written here.
#include "runtime/attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <thread>

#include "planner/spec/error.h"
#include "runtime/device_mesh.h"
#include "runtime/ring.h"
#include "tests/support/run_ranks.h"

namespace hpplan::runtime {
namespace {

// [B, rows, h, d]; head j of q sees KV head j / (h / h_kv).
at::Tensor whole_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           double scale, const at::Tensor& hidden = {}) {
  const auto turn = [&](const at::Tensor& x) {
    return x.to(at::kDouble)
        .repeat_interleave(q.size(2) / x.size(2), 2)
        .permute({0, 2, 1, 3});
  };
  at::Tensor scores = at::matmul(turn(q), turn(k).transpose(2, 3)) * scale;
  if (hidden.defined())
    scores = scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
  return at::matmul(scores.softmax(-1), turn(v)).permute({0, 2, 1, 3});
}

double distance(const at::Tensor& got, const at::Tensor& want) {
  const at::Tensor w = want.to(at::kDouble);
  return ((got.to(at::kDouble) - w).norm() / (w.norm() + 1e-30)).item<double>();
}

at::Tensor draw(at::IntArrayRef shape, double mean = 0) {
  return at::randn(shape, at::kDouble) + mean;
}

struct Problem {
  int batch = 1, heads = 4, kv_heads = 4, head_dim = 8;
  at::ScalarType type = at::kFloat;
  double tolerance = 2e-6;
};

// Every rank's rows of the sharded answer against the whole one. rows.valid rows of the
// padded q, k, v are real; the padding holds large numbers that would show in any answer
// they reached.
void expect_whole(const Mesh& grid, const RowSplit& rows, const Problem& p,
                  AttentionOptions options) {
  at::manual_seed(7);
  const std::int64_t total = rows.total(), valid = rows.total_valid();
  at::Tensor q = draw({p.batch, total, p.heads, p.head_dim}).to(p.type);
  at::Tensor k = draw({p.batch, total, p.kv_heads, p.head_dim}, 0.2).to(p.type);
  at::Tensor v = draw({p.batch, total, p.kv_heads, p.head_dim}, 0.5).to(p.type);
  const at::Tensor want = whole_attention(q.narrow(1, 0, valid), k.narrow(1, 0, valid),
                                          v.narrow(1, 0, valid), 0.3);
  for (at::Tensor* x : {&q, &k, &v}) x->narrow(1, valid, total - valid).fill_(50);
  options.scale = 0.3;
  run_ranks(grid, [&](const DeviceMesh& mesh) {
    const int tp = grid.degrees().tp(), t = mesh.coordinate(Axis::kTp);
    const int part = mesh.sequence().rank();
    const auto own = [&](const at::Tensor& x) {
      return x.narrow(1, rows.begin(part), rows.rows[part]).chunk(tp, 2)[t];
    };
    const Attention attention(mesh.group(Axis::kUlysses), mesh.group(Axis::kRing),
                              p.heads / tp, p.kv_heads / tp, options);
    const at::Tensor got = attention(own(q), own(k), own(v), rows);
    EXPECT_EQ(mesh.ledger().counts(), attention.collectives()) << mesh.describe();
    ASSERT_EQ(got.sizes(), own(q).sizes());
    EXPECT_EQ(got.scalar_type(), p.type);
    const std::int64_t real = rows.valid[part];
    const std::int64_t begin = std::min(rows.begin(part), valid);  // a part of padding alone
    EXPECT_LE(distance(got.narrow(1, 0, real),
                       want.narrow(1, begin, real).chunk(tp, 2)[t]),
              p.tolerance)
        << mesh.describe() << ", " << to_string(options.ring_method);
    EXPECT_EQ(got.narrow(1, real, rows.rows[part] - real).abs().sum().item<double>(), 0)
        << mesh.describe();
  });
}

Mesh grid_of(int tp, int ring, int ulysses) {
  return Mesh::from_order(Degrees::make(tp, ring, ulysses),
                          {Axis::kTp, Axis::kUlysses, Axis::kRing});
}

constexpr RingMethod kBoth[] = {RingMethod::kP2p, RingMethod::kAllGather};

TEST(Attention, MeshesOfOneToEightRanks) {
  for (const auto& [tp, ring, ulysses] : std::vector<std::array<int, 3>>{{1, 1, 1},
                                                                         {1, 1, 2},
                                                                         {1, 2, 1},
                                                                         {1, 1, 3},
                                                                         {1, 3, 1},
                                                                         {1, 2, 2},
                                                                         {2, 1, 2},
                                                                         {1, 1, 4},
                                                                         {1, 5, 1},
                                                                         {1, 3, 2},
                                                                         {2, 3, 1},
                                                                         {2, 2, 2},
                                                                         {1, 4, 2},
                                                                         {1, 2, 4}}) {
    for (const RingMethod method : kBoth) {
      AttentionOptions options;
      options.ring_method = method;
      Problem p;
      p.heads = p.kv_heads = 12;
      expect_whole(grid_of(tp, ring, ulysses), RowSplit::uneven(41, ring * ulysses), p,
                   options);
      p.batch = 2;
      expect_whole(grid_of(tp, ring, ulysses), RowSplit::padded_to(29, ring * ulysses), p,
                   options);
    }
  }
}

// A mesh whose grid is no row-major order: parts follow coordinates, not ranks.
TEST(Attention, PartsFollowThePlansGrid) {
  const Mesh grid(Degrees::make(1, 2, 3), {Axis::kUlysses, Axis::kRing},
                  {4, 1, 0, 5, 3, 2}, {0, 1, 2, 3, 4, 5});
  Problem p;
  p.heads = p.kv_heads = 6;
  expect_whole(grid, RowSplit::uneven(23, 6), p, {});
}

TEST(Attention, SixteenBit) {
  for (const auto& [type, tolerance] :
       {std::pair{at::kBFloat16, 8e-3}, std::pair{at::kHalf, 1e-3}}) {
    for (const RingMethod method : kBoth) {
      AttentionOptions options;
      options.ring_method = method;
      expect_whole(grid_of(1, 2, 2), RowSplit::padded_to(37, 4),
                   {1, 4, 4, 16, type, tolerance}, options);
    }
  }
}

TEST(Attention, UnevenAndPaddedHeads) {
  for (const UnevenHeads uneven : {UnevenHeads::kPad, UnevenHeads::kUneven}) {
    for (const int batch : {1, 2}) {
      AttentionOptions options;
      options.uneven_heads = uneven;
      expect_whole(grid_of(1, 1, 4), RowSplit::uneven(30, 4), {batch, 7, 7, 8}, options);
      expect_whole(grid_of(2, 1, 4), RowSplit::uneven(21, 4), {batch, 14, 14, 8},
                   options);
      expect_whole(grid_of(1, 2, 3), RowSplit::padded_to(33, 6), {batch, 5, 5, 8},
                   options);
    }
  }
}

// Every residue of the rows modulo the degree.
TEST(Attention, BL077EveryResidue) {
  for (std::int64_t rows = 20; rows < 24; ++rows) {
    expect_whole(grid_of(1, 1, 4), RowSplit::padded_to(rows, 4), {1, 24, 24, 8}, {});
    expect_whole(grid_of(1, 1, 4), RowSplit::uneven(rows, 4), {1, 24, 24, 8}, {});
    expect_whole(grid_of(1, 4, 1), RowSplit::padded_to(rows, 4), {}, {});
  }
}

// The output of the last real row, whatever the padding: within 1e-6 in fp32.
TEST(Attention, BL080PaddedKeysChangeNothing) {
  expect_whole(grid_of(1, 1, 2), RowSplit::padded_to(31, 2),
               {1, 4, 4, 8, at::kFloat, 1e-6}, {});
}

TEST(Attention, BL074TheLastRowOfSevenCounts) {
  expect_whole(grid_of(1, 2, 1), RowSplit::padded_to(7, 2), {}, {});
  expect_whole(grid_of(1, 1, 2), RowSplit::padded_to(7, 2), {}, {});
}

// Sources of 32, 32, 1 and 0 real rows.
TEST(Attention, BL081ValidLengthPerSource) {
  for (const RingMethod method : kBoth) {
    AttentionOptions options;
    options.ring_method = method;
    expect_whole(grid_of(1, 4, 1), RowSplit::of_padded(128, 65, 4), {}, options);
    expect_whole(grid_of(1, 2, 2), RowSplit::of_padded(128, 65, 4), {}, options);
  }
}

// A part of the sequence that is nothing but padding, first to arrive on its neighbour.
TEST(Attention, BL085EmptyBlocksContributeNothing) {
  for (const int valid : {1, 3, 9})
    expect_whole(grid_of(1, 4, 1), RowSplit::of_padded(12, valid, 4), {}, {});
}

// All scores 0: a padded key would bring the answer from 1 to valid / padded.
TEST(Attention, BL076AZeroKeyIsNotNeutral) {
  const RowSplit rows = RowSplit::of_padded(16, 10, 2);
  for (const auto& [ring, ulysses] : {std::pair{2, 1}, std::pair{1, 2}}) {
    run_ranks(grid_of(1, ring, ulysses), [&](const DeviceMesh& mesh) {
      const int part = mesh.sequence().rank();
      const at::Tensor zero = at::zeros({1, 8, 2, 4});
      at::Tensor v = at::zeros({1, 8, 2, 4});
      v.narrow(1, 0, rows.valid[part]).fill_(1);
      const Attention attention(mesh.group(Axis::kUlysses), mesh.group(Axis::kRing), 2, 2,
                                {});
      const at::Tensor out =
          attention(zero, zero, v, rows).narrow(1, 0, rows.valid[part]);
      EXPECT_TRUE(at::allclose(out, at::ones_like(out), 1e-6)) << mesh.describe();
    });
  }
}

TEST(Attention, BL027GroupedQueriesOverTheRing) {
  for (const RingMethod method : kBoth) {
    AttentionOptions options;
    options.ring_method = method;
    expect_whole(grid_of(1, 2, 2), RowSplit::uneven(19, 4),
                 {1, 4, 2, 16, at::kBFloat16, 8e-3}, options);
  }
  // Only KV heads travel: 2 of them, K and V, 10 rows a block.
  run_ranks(grid_of(1, 2, 1), [](const DeviceMesh& mesh) {
    const Attention attention(mesh.group(Axis::kUlysses), mesh.group(Axis::kRing), 8, 2,
                              {});
    const at::Tensor kv = at::ones({1, 10, 2, 4});
    (void)attention(at::ones({1, 10, 8, 4}), kv, kv, RowSplit::uneven(20, 2));
    EXPECT_EQ(mesh.ledger().wire_bytes().at("ring"), 2 * 10 * 2 * 4 * 4);
  });
}

TEST(Attention, BL026PaddedGroupedHeads) {
  AttentionOptions options;
  options.uneven_heads = UnevenHeads::kPad;
  expect_whole(grid_of(1, 1, 2), RowSplit::uneven(13, 2), {1, 28, 7, 8}, options);
}

TEST(Attention, BL031UnevenByKvGroup) {
  expect_whole(grid_of(1, 1, 2), RowSplit::uneven(13, 2), {2, 6, 3, 8}, {});
}

TEST(Attention, BL033ReplicatedKvHeads) {
  expect_whole(grid_of(1, 1, 4), RowSplit::uneven(13, 4), {2, 8, 2, 8}, {});
  expect_whole(grid_of(1, 2, 4), RowSplit::uneven(17, 8), {1, 8, 1, 8}, {});
}

// Joint text rows that every rank holds, with the sharded rows.
void expect_joint(const Mesh& grid, const RowSplit& rows, std::int64_t text,
                  const Problem& p, AttentionOptions options) {
  at::manual_seed(9);
  const std::int64_t valid = rows.total_valid();
  const auto make = [&](std::int64_t n, int heads) {
    return draw({p.batch, n, heads, p.head_dim}, 0.3).to(p.type);
  };
  const at::Tensor q = make(rows.total(), p.heads), k = make(rows.total(), p.kv_heads),
                   v = make(rows.total(), p.kv_heads);
  const JointRows t{make(text, p.heads), make(text, p.kv_heads), make(text, p.kv_heads)};
  const auto both = [&](const at::Tensor& x, const at::Tensor& y) {
    return at::cat({x.narrow(1, 0, valid), y}, 1);
  };
  at::Tensor hidden;
  if (options.causal) {
    hidden = at::zeros({valid + text, valid + text}, at::kBool);
    hidden.narrow(0, 0, valid)
        .narrow(1, 0, valid)
        .copy_(at::ones({valid, valid}, at::kBool).triu(1));
  }
  const at::Tensor want =
      whole_attention(both(q, t.q), both(k, t.k), both(v, t.v), 0.3, hidden);
  options.scale = 0.3;
  run_ranks(grid, [&](const DeviceMesh& mesh) {
    const int part = mesh.sequence().rank();
    const auto own = [&](const at::Tensor& x) {
      return x.narrow(1, rows.begin(part), rows.rows[part]);
    };
    const Attention attention(mesh.group(Axis::kUlysses), mesh.group(Axis::kRing),
                              p.heads, p.kv_heads, options);
    const Attention::Output got = attention.joint(own(q), own(k), own(v), rows, t);
    const std::int64_t real = rows.valid[part];
    // Each stream by itself: a small one cannot hide behind a large one.
    EXPECT_LE(
        distance(got.rows.narrow(1, 0, real), want.narrow(1, rows.begin(part), real)),
        p.tolerance)
        << mesh.describe();
    EXPECT_LE(distance(got.joint, want.narrow(1, valid, text)), p.tolerance)
        << mesh.describe();
  });
}

TEST(JointAttention, BL084EveryJointKeyCountsOnce) {
  for (const auto& [ring, ulysses] :
       {std::pair{2, 1}, std::pair{1, 2}, std::pair{2, 2}, std::pair{3, 1}}) {
    for (const RingMethod method : kBoth) {
      AttentionOptions options;
      options.ring_method = method;
      expect_joint(grid_of(1, ring, ulysses), RowSplit::uneven(26, ring * ulysses), 5,
                   {2, 4, 4, 8}, options);
      expect_joint(grid_of(1, ring, ulysses), RowSplit::padded_to(25, ring * ulysses), 7,
                   {1, 8, 2, 8}, options);
      // All scores 0, text V = 1, image V = 0: T / (T + N).
      run_ranks(grid_of(1, ring, ulysses), [&](const DeviceMesh& mesh) {
        const RowSplit rows = RowSplit::uneven(24, mesh.sequence().size());
        const at::Tensor zero = at::zeros({1, rows.rows[mesh.sequence().rank()], 4, 4});
        const at::Tensor text = at::zeros({1, 6, 4, 4});
        const Attention attention(mesh.group(Axis::kUlysses), mesh.group(Axis::kRing), 4,
                                  4, options);
        const auto out =
            attention.joint(zero, zero, zero, rows, {text, text, at::ones_like(text)});
        EXPECT_NEAR(out.rows.mean().item<float>(), 6.0 / 30.0, 1e-6);
        EXPECT_NEAR(out.joint.mean().item<float>(), 6.0 / 30.0, 1e-6);
      });
    }
  }
}

TEST(JointAttention, UnevenHeads) {
  for (const UnevenHeads uneven : {UnevenHeads::kPad, UnevenHeads::kUneven}) {
    AttentionOptions options;
    options.uneven_heads = uneven;
    expect_joint(grid_of(1, 1, 4), RowSplit::uneven(18, 4), 3, {2, 7, 7, 8}, options);
  }
}

TEST(JointAttention, BL087CausalRowsStillSeeEveryJointKey) {
  for (const RingMethod method : kBoth) {
    for (const int ring : {1, 2, 4}) {
      AttentionOptions options;
      options.ring_method = method;
      options.causal = true;
      expect_joint(grid_of(1, ring, 1), RowSplit::uneven(8, ring), 4, {1, 2, 2, 8},
                   options);
      if (ring < 4)
        expect_joint(grid_of(1, ring, 2), RowSplit::uneven(11, 2 * ring), 4, {1, 2, 2, 8},
                     options);
    }
  }
}

TEST(Attention, CausalWithPaddingIsRefused) {
  AttentionOptions options;
  options.causal = true;
  const at::Tensor x = at::ones({1, 4, 2, 4});
  EXPECT_THROW(
      (void)Attention({}, {}, 2, 2, options)(x, x, x, RowSplit::of_padded(4, 3, 1)),
      InputError);
}

// Heads that do not divide, when the plan says they must.
TEST(Attention, StrictHeadsAreRefusedWhenTheyDoNotDivide) {
  run_ranks(grid_of(1, 1, 4), [](const DeviceMesh& mesh) {
    AttentionOptions options;
    options.uneven_heads = UnevenHeads::kRefuse;
    EXPECT_THROW(
        Attention(mesh.group(Axis::kUlysses), mesh.group(Axis::kRing), 7, 7, options),
        InputError);
  });
}

// Q, K and V of one tensor, and the plan's collectives counted.
TEST(Attention, FusedQkvAndCounts) {
  at::manual_seed(3);
  const at::Tensor qkv = at::randn({1, 24, 3, 4, 8});
  const at::Tensor want = whole_attention(qkv.select(2, 0), qkv.select(2, 1),
                                          qkv.select(2, 2), 1 / std::sqrt(8.0));
  const RowSplit rows = RowSplit::uneven(24, 6);
  run_ranks(grid_of(1, 3, 2), [&](const DeviceMesh& mesh) {
    const int part = mesh.sequence().rank();
    const Attention attention(mesh.group(Axis::kUlysses), mesh.group(Axis::kRing), 4, 4,
                              {});
    const at::Tensor got =
        attention(qkv.narrow(1, rows.begin(part), rows.rows[part]), rows);
    EXPECT_LE(distance(got, want.narrow(1, rows.begin(part), rows.rows[part])), 2e-6);
    const std::map<std::string, std::int64_t> counts = {{"ulysses/all_to_all", 2},
                                                        {"ring/shift", 2}};
    EXPECT_EQ(mesh.ledger().counts(), counts);
    EXPECT_EQ(attention.collectives(), counts);
  });
}

// The next block's transfer is issued before this block's attention and waited for after
// it.
TEST(Attention, TheNextBlockIsUnderWayWhileThisOneComputes) {
  const std::int64_t n = 1500;
  run_ranks(grid_of(1, 3, 1), [&](const DeviceMesh& mesh) {
    std::vector<std::pair<double, double>> spans;
    mesh.ledger().observe([&](const CollectiveRecord& r) {
      spans.push_back(
          {r.issued.time_since_epoch().count(), r.done->time_since_epoch().count()});
    });
    const at::Tensor x = at::ones({1, n, 2, 32});
    const Attention attention(mesh.group(Axis::kUlysses), mesh.group(Axis::kRing), 2, 2,
                              {});
    (void)attention(x, x, x, RowSplit::uneven(3 * n, 3));
    // A block's attention takes far longer than issuing a transfer; it lies inside each
    // span.
    const auto begin = std::chrono::steady_clock::now();
    (void)attend(Kernel::kCpuFlash, x, x, x, 1);
    const double block =
        static_cast<double>((std::chrono::steady_clock::now() - begin).count());
    ASSERT_EQ(spans.size(), 2U);
    for (const auto& [issued, done] : spans) EXPECT_GT(done - issued, block / 4);
    EXPECT_GE(spans[1].first, spans[0].second);
  });
}

}  // namespace
}  // namespace hpplan::runtime
