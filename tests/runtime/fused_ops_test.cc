// Row passes against the same formula in double precision; widths that fill no vector
// register evenly.
#include "runtime/models/fused_ops.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace hpplan::runtime {
namespace {

double difference(const at::Tensor& got, const at::Tensor& want) {
  const at::Tensor w = want.to(at::kDouble);
  return ((got.to(at::kDouble) - w).norm() / w.norm()).item<double>();
}

at::Tensor rms(const at::Tensor& x, double eps) {
  const at::Tensor d = x.to(at::kDouble);
  return d * (d.square().mean(-1, true) + eps).rsqrt();
}

struct Case {
  at::ScalarType type;
  double tolerance;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c10::toString(c.type); }

class FusedOps : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { at::manual_seed(3); }
  at::Tensor rows(at::IntArrayRef shape) const {
    return at::randn(shape).to(GetParam().type);
  }
  // 7 rows: table rows 2, 0, 2, 1.
  std::vector<runtime::Run> runs_ = {{0, 1, 2}, {1, 4, 0}, {4, 5, 2}, {5, 7, 1}};
  at::Tensor table_row_ = at::tensor({2, 0, 0, 0, 2, 1, 1}, at::kLong);
};

TEST_P(FusedOps, NormModulatedByRuns) {
  for (const int width : {1, 5, 16, 37, 130}) {
    const at::Tensor x = rows({2, 7, width}), scale = at::randn({3, width}),
                     shift = at::randn({3, width});
    const at::Tensor want = rms(x, 1e-5) * scale.index_select(0, table_row_) +
                            shift.index_select(0, table_row_);
    for (const auto& norm : {rms_norm_modulated, plain_ops::rms_norm_modulated}) {
      EXPECT_LE(difference(norm(x, runs_, scale, shift, 1e-5), want),
                GetParam().tolerance)
          << width;
    }
    const at::Tensor weight = at::randn({width});
    EXPECT_LE(difference(rms_norm(x, weight, 1e-3), rms(x, 1e-3) * weight),
              GetParam().tolerance)
        << width;
  }
}

TEST_P(FusedOps, GatedSumAndItsNorm) {
  for (const int width : {3, 32, 45}) {
    const at::Tensor x = rows({2, 7, width}), y = rows({2, 7, width}),
                     gate = at::randn({3, width});
    const at::Tensor scale = at::randn({3, width}), shift = at::randn({3, width});
    const at::Tensor sum =
        x.to(at::kDouble) + gate.index_select(0, table_row_) * y.to(at::kDouble);
    at::Tensor a = x.clone(), b = x.clone(), c = x.clone();
    plain_ops::add_gated(c, y, runs_, gate);
    EXPECT_LE(difference(c, sum), GetParam().tolerance);
    add_gated(a, y, runs_, gate);
    EXPECT_LE(difference(a, sum), GetParam().tolerance);
    const at::Tensor normed = add_gated_norm(b, y, runs_, gate, scale, shift, 1e-5);
    EXPECT_TRUE(at::equal(a, b));
    const at::Tensor want = rms(sum, 1e-5) * scale.index_select(0, table_row_) +
                            shift.index_select(0, table_row_);
    EXPECT_LE(difference(normed, want), GetParam().tolerance);
  }
}

TEST_P(FusedOps, HeadNormAndPartialRotation) {
  const int heads = 3, d = 21, half = 7;  // 14 of 21 channels turn
  const at::Tensor original = rows({2, 7, 3, heads, d}), weight = at::randn({d}),
                   angle = at::randn({7, half});
  const at::Tensor x = rms(original.select(2, 1), 1e-5) * weight;
  const at::Tensor c = angle.to(at::kDouble).cos().unsqueeze(1),
                   s = angle.to(at::kDouble).sin().unsqueeze(1);
  const at::Tensor a = x.narrow(3, 0, half), b = x.narrow(3, half, half);
  const at::Tensor want =
      at::cat({a * c - b * s, b * c + a * s, x.narrow(3, 2 * half, d - 2 * half)}, 3);
  for (const auto& apply : {norm_rope, plain_ops::norm_rope}) {
    const at::Tensor fused = original.clone();
    apply(fused.select(2, 1), weight, 1e-5, angle.cos(), angle.sin());
    EXPECT_LE(difference(fused.select(2, 1), want), GetParam().tolerance);
    // Neighbours are untouched.
    EXPECT_TRUE(at::equal(fused.select(2, 0), original.select(2, 0)));
    EXPECT_TRUE(at::equal(fused.select(2, 2), original.select(2, 2)));
    apply(fused.select(2, 0), weight, 1e-5, {}, {});
    EXPECT_LE(difference(fused.select(2, 0), rms(original.select(2, 0), 1e-5) * weight),
              GetParam().tolerance);
  }
}

TEST_P(FusedOps, SwigluOverTheWholeRange) {
  at::Tensor up_gate = rows({2, 7, 2 * 33});
  up_gate.narrow(2, 33, 33).mul_(40);  // gates from far below to far above
  const at::Tensor wide = up_gate.to(at::kDouble);
  const at::Tensor want = wide.narrow(2, 0, 33) * at::silu(wide.narrow(2, 33, 33));
  const at::Tensor odd = at::tensor({1.0, 1.0, 1.0, 200.0, -200.0, 0.0})
                             .reshape({1, 1, 6})
                             .to(GetParam().type);
  for (const auto& apply : {swiglu, plain_ops::swiglu}) {
    EXPECT_LE(difference(apply(up_gate), want), GetParam().tolerance);
    EXPECT_TRUE(at::allclose(apply(odd).to(at::kFloat),
                             at::tensor({200.0F, 0.0F, 0.0F}).reshape({1, 1, 3}), 0,
                             1e-30));
  }
}

INSTANTIATE_TEST_SUITE_P(Types, FusedOps,
                         testing::Values(Case{at::kFloat, 4e-7},
                                         Case{at::kBFloat16, 4e-3},
                                         Case{at::kHalf, 5e-4}),
                         [](const auto& info) {
                           return std::string(c10::toString(info.param.type));
                         });

// Rows that are zero stay finite, and a NaN stays a NaN.
TEST(FusedOpsEdges, ZeroRowsAndNan) {
  const at::Tensor zero = at::zeros({1, 2, 8});
  EXPECT_TRUE(at::equal(rms_norm(zero, at::ones({8}), 1e-5), zero));
  at::Tensor bad = at::ones({1, 1, 4});
  bad[0][0][2] = std::nanf("");
  EXPECT_TRUE(swiglu(bad).isnan().any().item<bool>());
}

}  // namespace
}  // namespace hpplan::runtime
