// Attention kernels behind the adapter, and the merge of their blocks. The reference is
// plain float64 arithmetic on whole tensors, written here.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "planner/spec/error.h"
#include "runtime/attention_kernels.h"
#include "runtime/lse_merge.h"

namespace hpplan::runtime {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

at::Tensor draw(at::IntArrayRef shape, double mean = 0, double scale = 1) {
  return at::randn(shape, at::kDouble) * scale + mean;
}

// [B, rows, h, d] in float64; keys of a KV head serve h / h_kv query heads.
struct Reference {
  at::Tensor out, lse;
};
Reference reference(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    double scale, bool causal = false) {
  const auto turn = [&](const at::Tensor& x) {
    return x.to(at::kDouble)
        .repeat_interleave(q.size(2) / x.size(2), 2)
        .permute({0, 2, 1, 3});
  };
  at::Tensor scores = at::matmul(turn(q), turn(k).transpose(2, 3)) * scale;
  if (causal) scores += at::full_like(scores, kNothing).triu(1);
  return {at::matmul(scores.softmax(-1), turn(v)).permute({0, 2, 1, 3}),
          scores.logsumexp(-1)};
}

double distance(const at::Tensor& got, const at::Tensor& want) {
  const at::Tensor w = want.to(at::kDouble);
  return ((got.to(at::kDouble) - w).norm() / w.norm()).item<double>();
}

struct Case {
  Kernel kernel;
  at::ScalarType type;
  double tolerance;
};
std::string name_of(const Case& c) {
  return concat(to_string(c.kernel), '_', c10::toString(c.type));
}
void PrintTo(const Case& c, std::ostream* out) { *out << name_of(c); }
class CpuKernel : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { at::manual_seed(5); }
  at::Tensor typed(const at::Tensor& x) const { return x.to(GetParam().type); }
  Partial run(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
              bool causal = false) {
    return attend(GetParam().kernel, typed(q), typed(k), typed(v), scale, causal);
  }
};

TEST_P(CpuKernel, OutputAndNaturalLseInFp32) {
  for (const bool causal : {false, true}) {
    for (const int heads_per_kv : {1, 3}) {
      const at::Tensor q = draw({2, 21, 6, 24}),
                       k = draw({2, 21, 6 / heads_per_kv, 24}, 0.3),
                       v = draw({2, 21, 6 / heads_per_kv, 24});
      const Partial got = run(q, k, v, 0.3, causal);
      const Reference want = reference(typed(q), typed(k), typed(v), 0.3, causal);
      EXPECT_LE(distance(got.out, want.out), GetParam().tolerance);
      EXPECT_LE(distance(got.lse, want.lse), GetParam().tolerance);
      EXPECT_EQ(got.out.scalar_type(), GetParam().type);
      EXPECT_EQ(got.lse.scalar_type(), at::kFloat);
      EXPECT_EQ(got.lse.sizes(), (at::IntArrayRef{2, 6, 21}));
    }
  }
}

// q, k and v as views into one tensor [B, S, 3, h, d], and the output laid out for the
// exchange after it.
TEST_P(CpuKernel, TakesStridedViewsAndGivesRowMajorOutput) {
  const at::Tensor qkv = typed(draw({1, 40, 3, 4, 16}));
  const Partial got = attend(GetParam().kernel, qkv.select(2, 0), qkv.select(2, 1),
                             qkv.select(2, 2), 0.25);
  const Reference want =
      reference(qkv.select(2, 0), qkv.select(2, 1), qkv.select(2, 2), 0.25);
  EXPECT_LE(distance(got.out, want.out), GetParam().tolerance);
  if (GetParam().kernel == Kernel::kCpuFlash) EXPECT_TRUE(got.out.is_contiguous());
}

// A short block beside a long one: a base-2 LSE would give it a fifth of its weight.
TEST_P(CpuKernel, BL103UnequalBlocks) {
  const at::Tensor q = draw({1, 9, 2, 16}), k = draw({1, 3072 + 64, 2, 16}),
                   v = draw({1, 3072 + 64, 2, 16}, 0.5);
  LseMerge merge;
  for (const auto& [begin, rows] : {std::pair{0, 3072}, std::pair{3072, 64}})
    merge.add(run(q, k.narrow(1, begin, rows), v.narrow(1, begin, rows), 0.25));
  const Reference want = reference(typed(q), typed(k), typed(v), 0.25);
  EXPECT_LE(distance(merge.result(at::kFloat), want.out), 4 * GetParam().tolerance);
  EXPECT_LE(distance(merge.lse(), want.lse), GetParam().tolerance);
}

TEST_P(CpuKernel, BL105BlocksOfDifferentMeanOfK) {
  for (const int blocks : {2, 4, 8}) {
    LseMerge merge;
    std::vector<at::Tensor> ks, vs;
    const at::Tensor q = draw({1, 11, 2, 16}, 0.4);
    for (int b = 0; b < blocks; ++b) {
      ks.push_back(draw({1, 5 + 7 * b, 2, 16}, b % 2 == 0 ? 1 : -1));
      vs.push_back(draw({1, 5 + 7 * b, 2, 16}, b));
      merge.add(run(q, ks.back(), vs.back(), 0.25));
    }
    const Reference want =
        reference(typed(q), typed(at::cat(ks, 1)), typed(at::cat(vs, 1)), 0.25);
    EXPECT_LE(distance(merge.result(at::kFloat), want.out), 2 * GetParam().tolerance)
        << blocks;
  }
  EXPECT_LE(conformance_error(GetParam().kernel, at::kCPU, GetParam().type, 16),
            2 * GetParam().tolerance);
}

// The merged error does not grow with the number of blocks beyond the rounding of each.
TEST_P(CpuKernel, BL108ErrorDoesNotGrowWithTheRing) {
  const at::Tensor q = draw({1, 32, 4, 32}), k = draw({1, 240, 4, 32}),
                   v = draw({1, 240, 4, 32});
  const Reference want = reference(typed(q), typed(k), typed(v), 0.18);
  const double one = distance(run(q, k, v, 0.18).out, want.out);
  for (const int ring : {2, 4, 8}) {
    LseMerge merge;
    for (int b = 0; b < ring; ++b)
      merge.add(run(q, k.narrow(1, b * 240 / ring, 240 / ring),
                    v.narrow(1, b * 240 / ring, 240 / ring), 0.18));
    EXPECT_LE(distance(merge.result(GetParam().type), want.out), 1.5 * one + 1e-7)
        << ring;
  }
}

TEST_P(CpuKernel, NoKeysGiveNothing) {
  const Partial none = run(draw({1, 3, 2, 8}), draw({1, 0, 2, 8}), draw({1, 0, 2, 8}), 1);
  EXPECT_TRUE((none.lse == kNothing).all().item<bool>());
  EXPECT_EQ(none.out.sizes(), (at::IntArrayRef{1, 3, 2, 8}));
}

INSTANTIATE_TEST_SUITE_P(All, CpuKernel,
                         testing::Values(Case{Kernel::kCpuFlash, at::kFloat, 2e-6},
                                         Case{Kernel::kCpuFlash, at::kBFloat16, 6e-3},
                                         Case{Kernel::kCpuFlash, at::kHalf, 8e-4},
                                         Case{Kernel::kMath, at::kFloat, 2e-6},
                                         Case{Kernel::kMath, at::kBFloat16, 6e-3}),
                         [](const auto& info) { return name_of(info.param); });

Partial block(const std::vector<float>& out, const std::vector<float>& lse) {
  const auto n = static_cast<std::int64_t>(out.size());
  return {at::tensor(out).view({1, n, 1, 1}), at::tensor(lse).view({1, 1, n})};
}

TEST(LseMerge, BL107StableForLargeDifferences) {
  LseMerge merge;
  merge.add(block({1, 1, 1, 1}, {0, kNothing, 3, kNothing}));
  merge.add(block({2, 2, 2, 2}, {100, 3, kNothing, kNothing}));
  const at::Tensor lse = merge.lse().flatten();
  EXPECT_EQ(lse[0].item<float>(), 100.0F);
  EXPECT_EQ(lse[1].item<float>(), 3.0F);
  EXPECT_EQ(lse[2].item<float>(), 3.0F);
  EXPECT_EQ(lse[3].item<float>(), kNothing);
  const at::Tensor out = merge.result(at::kFloat).flatten();
  EXPECT_TRUE(out.isfinite().all().item<bool>());
  EXPECT_EQ(out[0].item<float>(), 2.0F);
  EXPECT_EQ(out[1].item<float>(), 2.0F);
  EXPECT_EQ(out[2].item<float>(), 1.0F);
}

// d = -3.8753: weight sigmoid(d) = 0.02033; a base-2 LSE would give 0.00372.
TEST(LseMerge, BL104WeightsAreNatural) {
  LseMerge merge;
  merge.add(block({0}, {0}));
  merge.add(block({1}, {-3.8753F}));
  EXPECT_NEAR(merge.result(at::kFloat).item<float>(), 0.020326, 2e-6);
}

// Blocks in 16 bit: both operands of the merge are fp32, and the result is rounded once.
TEST(LseMerge, BL109OperandsAreFp32) {
  const float third = 1.0F / 3.0F;
  LseMerge merge;
  for (int i = 0; i < 3; ++i) {
    Partial part = block({static_cast<float>(i)}, {std::log(third)});
    part.out = part.out.to(at::kBFloat16);
    merge.add(part);
  }
  EXPECT_EQ(merge.lse().scalar_type(), at::kFloat);
  EXPECT_NEAR(merge.result(at::kFloat).item<float>(), 1.0F, 1e-6);
  EXPECT_EQ(merge.result(at::kBFloat16).scalar_type(), at::kBFloat16);
  // A 16-bit LSE would be off by 2^-9 of its size: 0.4 % of a weight here.
  LseMerge fine;
  fine.add(block({0}, {100.0F}));
  fine.add(block({1}, {100.1F}));
  EXPECT_NEAR(fine.result(at::kFloat).item<float>(), 1 / (1 + std::exp(-0.1)), 2e-6);
}

TEST(LseMerge, BL112TrailingUnitAxis) {
  const at::Tensor lse = at::arange(6, at::kFloat).view({1, 2, 3});
  EXPECT_TRUE(canonical_lse(lse.unsqueeze(-1), 1, 2, 3).equal(lse));
  EXPECT_TRUE(canonical_lse(lse, 1, 2, 3).equal(lse));
  EXPECT_DEATH(canonical_lse(lse.transpose(1, 2), 1, 2, 3), "log-sum-exp");
  EXPECT_DEATH(canonical_lse(lse.flatten(), 1, 2, 3), "log-sum-exp");
}

// The empty block first, in the middle and last: the same finite result.
TEST(LseMerge, BL115EmptyBlocksInAnyPlace) {
  at::manual_seed(1);
  const at::Tensor q = draw({1, 4, 2, 8}).to(at::kFloat);
  const auto part = [&](std::int64_t rows) {
    const at::Tensor k = at::sin(at::arange(rows * 16, at::kFloat)).view({1, rows, 2, 8});
    return attend(Kernel::kMath, q, k, k * 2, 0.35);
  };
  const std::vector<std::vector<std::int64_t>> orders = {
      {0, 16, 5}, {16, 0, 5}, {16, 5, 0}, {0, 0, 16, 5}};
  at::Tensor first;
  for (const auto& order : orders) {
    LseMerge merge;
    for (const std::int64_t rows : order) merge.add(part(rows));
    const at::Tensor out = merge.result(at::kFloat);
    EXPECT_TRUE(out.isfinite().all().item<bool>());
    if (!first.defined()) first = out;
    EXPECT_LE(distance(out, first), 1e-6);
  }
  // Even if the empty block's output is not a number.
  LseMerge merge;
  merge.add(part(16));
  const at::Tensor before = merge.result(at::kFloat).clone();
  Partial none = part(0);
  none.out.fill_(std::nan(""));
  merge.add(none);
  EXPECT_TRUE(merge.result(at::kFloat).equal(before));
}

// Row strides of a fused tensor of 56 heads: offsets pass 2^31 elements between rows
// 99864 and 99865.
TEST(CpuKernelIndex, BL118OffsetsBeyond32Bits) {
  const std::int64_t stride = 21504, rows = 99866, width = 16;
  // Pages that nobody touches cost nothing; each row's first channels are written.
  const at::Tensor fused = at::empty({rows * stride}, at::kBFloat16);
  const at::Tensor k = fused.as_strided({1, rows, 1, width}, {0, stride, width, 1});
  k.zero_();
  const at::Tensor q = at::ones({1, 2, 1, width}, at::kBFloat16);
  // Rows on both sides of the limit draw all the weight to themselves, in turn.
  for (const std::int64_t row : {rows - 4, rows - 3, rows - 2, rows - 1}) {
    k.select(1, row).fill_(8);
    const Partial got = attend(Kernel::kCpuFlash, q, k, k, 1.0);
    EXPECT_NEAR(got.out.select(1, 0).flatten()[0].item<float>(), 8.0F, 1e-2) << row;
    k.select(1, row).zero_();
  }
}

}  // namespace
}  // namespace hpplan::runtime
