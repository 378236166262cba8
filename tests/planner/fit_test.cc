// Fits against curves that are known, because the test made the points.
#include "planner/fit.h"

#include <gtest/gtest.h>

#include <cmath>

namespace hpplan {
namespace {

// All-reduce over 4: w = 1.5 * size. 20 us + w / 100 GB/s + 5 ns * sqrt(w).
std::vector<BenchRow> points() {
  std::vector<BenchRow> rows;
  for (double size = 1024; size <= 1e9; size *= 4)
    rows.push_back({Bytes(size),
                    Seconds(20e-6 + 1.5 * size / 100e9 + 5e-9 * std::sqrt(1.5 * size)),
                    0});
  return rows;
}

TEST(FitCurve, FindsTheCurveThatMadeThePoints) {
  const CurveFit fit = fit_curve(Collective::kAllReduce, 4, points(), {});
  EXPECT_NEAR(fit.curve.a.value, 20e-6, 1e-9);
  EXPECT_NEAR(fit.curve.bandwidth.value, 100e9, 1e6);
  EXPECT_NEAR(fit.curve.c, 5e-9, 1e-12);
  EXPECT_LT(fit.worst_error, 1e-6);
  EXPECT_EQ(fit.points, static_cast<int>(points().size()));
  EXPECT_EQ(fit.curve.source, Source::kMeasured);
}

TEST(FitCurve, NeverNegative) {
  // Faster than linear between the sizes: the best unconstrained c is below 0.
  std::vector<BenchRow> rows = points();
  for (BenchRow& row : rows)
    row.time = Seconds(20e-6 + row.size.value / 100e9 - 1e-9 * std::sqrt(row.size.value));
  const CurveFit fit = fit_curve(Collective::kAllReduce, 4, rows, {});
  EXPECT_EQ(fit.curve.c, 0);
  EXPECT_GE(fit.curve.a.value, 0);
  EXPECT_GT(fit.worst_error, 0);
}

// Every size once at half and once at three halves of its time: the curve goes through
// the mean, not under it.
TEST(FitCurve, NoiseDoesNotDrawItDown) {
  std::vector<BenchRow> rows;
  for (BenchRow row : points())
    for (const double noise : {0.5, 1.5}) {
      row.time = Seconds((20e-6 + 1.5 * row.size.value / 100e9) * noise);
      rows.push_back(row);
    }
  const CurveFit fit = fit_curve(Collective::kAllReduce, 4, rows, {});
  EXPECT_NEAR(fit.curve.a.value / 20e-6, 1, 0.02);
  EXPECT_NEAR(fit.curve.bandwidth.value / 100e9, 1, 0.02);
}

TEST(FitCurve, TimesThatGrowAsARootStillGiveABandwidth) {
  std::vector<BenchRow> rows;
  for (double size = 4096; size < 1e8; size *= 4)
    rows.push_back({Bytes(size), Seconds(1e-3 + 1e-6 * std::sqrt(size)), 0});
  const CurveFit fit = fit_curve(Collective::kAllToAll, 2, rows, {});
  EXPECT_GT(fit.curve.bandwidth.value, 0);
  EXPECT_LT(fit.worst_error, 0.5);
}

TEST(FitCurve, TooFewSizesOrNoGrowth) {
  std::vector<BenchRow> rows = points();
  rows.resize(2);
  EXPECT_THROW(fit_curve(Collective::kAllReduce, 4, rows, {}), InputError);
  std::vector<BenchRow> flat;
  for (const double size : {8., 64., 512., 4096.})
    flat.push_back({Bytes(size), Seconds(5e-4 - size * 1e-9), 0});
  EXPECT_THROW(fit_curve(Collective::kAllReduce, 4, flat, {}), InputError);
}

TEST(FitNonnegative, KnownAnswers) {
  // x + y = 3, x - y = 1, 2x = 4: x 2, y 1.
  const auto x = fit_nonnegative({{1, 1}, {1, -1}, {2, 0}}, {3, 1, 4});
  EXPECT_NEAR(x[0], 2, 1e-12);
  EXPECT_NEAR(x[1], 1, 1e-12);
  // x = -1 has no answer above 0.
  EXPECT_EQ(fit_nonnegative({{1}}, {-1})[0], 0);
}

TEST(FitFactors, TwoPartsAndThePull) {
  // Measured = 2 * first + 0.5 * second, in different mixtures.
  const std::vector<std::vector<double>> parts = {{1, 1}, {2, 1}, {1, 4}, {3, 1}};
  std::vector<double> measured;
  for (const auto& p : parts) measured.push_back(3 + 2 * p[0] + 0.5 * p[1]);
  const auto factors =
      fit_factors(parts, std::vector<double>(4, 3), measured, 1e-6, {1, 1});
  EXPECT_NEAR(factors[0], 2, 1e-3);
  EXPECT_NEAR(factors[1], 0.5, 1e-3);
  // A strong pull keeps them where they were.
  EXPECT_NEAR(fit_factors(parts, std::vector<double>(4, 3), measured, 1e6, {1, 1})[0], 1,
              1e-3);
  // What was already taken counts: towards 1 in all.
  EXPECT_NEAR(fit_factors(parts, std::vector<double>(4, 3), measured, 1e6, {2, 1})[0],
              0.5, 1e-3);
}

TEST(FitFactors, OneRunOfSomethingElseDoesNotSetTheLevel) {
  const std::vector<std::vector<double>> parts = {{1, 1}, {2, 1}, {1, 4}, {3, 1},
                                                  {2, 3}, {4, 1}, {1, 2}};
  std::vector<double> measured;
  for (const auto& p : parts) measured.push_back(1.1 * p[0] + 0.9 * p[1]);
  measured[2] *= 3;
  const auto factors =
      fit_factors(parts, std::vector<double>(parts.size(), 0), measured, 1e-6, {1, 1});
  EXPECT_NEAR(factors[0], 1.1, 0.06);
  EXPECT_NEAR(factors[1], 0.9, 0.12);
}

}  // namespace
}  // namespace hpplan
