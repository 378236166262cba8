#include "planner/stats.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace hpplan {
namespace {

TEST(Stats, MedianOfOddAndEven) {
  EXPECT_DOUBLE_EQ(median({3, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_DOUBLE_EQ(spread({1, 2, 3, 4, 100}), 1);
}

TEST(Stats, IntervalOfTheMedianByOrderStatistics) {
  // P(all n values on one side of the median) = 2 / 2^n.
  const MedianInterval five = median_interval({5, 1, 4, 2, 3}, 0.95);
  EXPECT_DOUBLE_EQ(five.low, 1);
  EXPECT_DOUBLE_EQ(five.high, 5);
  EXPECT_NEAR(five.confidence, 1 - 2.0 / 32, 1e-12);
  // Ten values: the second and ninth hold it with 1 - 2 * 11/1024, the third and eighth
  // do not.
  const MedianInterval ten = median_interval({10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 0.95);
  EXPECT_DOUBLE_EQ(ten.low, 2);
  EXPECT_DOUBLE_EQ(ten.high, 9);
  EXPECT_NEAR(ten.confidence, 1 - 22.0 / 1024, 1e-12);
  EXPECT_DOUBLE_EQ(median_interval({7}, 0.95).confidence, 0);
}

TEST(Stats, UTestAgainstPublishedValues) {
  // All of b above all of a: 2 of the C(10, 5) = 252 ways to deal the ranks.
  const UTest apart = mann_whitney({1, 2, 3, 4, 5}, {6, 7, 8, 9, 10});
  EXPECT_DOUBLE_EQ(apart.u, 25);
  EXPECT_DOUBLE_EQ(apart.effect, 1);
  EXPECT_NEAR(apart.p, 2.0 / 252, 1e-12);
  // 3 against 3 can never be significant at 5 %.
  EXPECT_NEAR(mann_whitney({1, 2, 3}, {4, 5, 6}).p, 0.1, 1e-12);
  const UTest same = mann_whitney({2, 2, 2}, {2, 2, 2});
  EXPECT_DOUBLE_EQ(same.p, 1);
  EXPECT_DOUBLE_EQ(same.effect, 0);
}

// Every way to choose which of the pooled values are b's.
double brute_force_p(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> pooled = a;
  pooled.insert(pooled.end(), b.begin(), b.end());
  const auto u_of = [&](const std::vector<bool>& is_b) {
    double u = 0;
    for (std::size_t i = 0; i < pooled.size(); ++i)
      for (std::size_t j = 0; j < pooled.size(); ++j)
        if (is_b[i] && !is_b[j])
          u += pooled[i] > pooled[j] ? 1 : pooled[i] == pooled[j] ? 0.5 : 0;
    return u;
  };
  std::vector<bool> given(pooled.size(), false);
  for (std::size_t i = a.size(); i < pooled.size(); ++i) given[i] = true;
  const double middle = static_cast<double>(a.size() * b.size()) / 2;
  const double far = std::abs(u_of(given) - middle);
  std::vector<bool> choice = given;
  std::sort(choice.begin(), choice.end());
  int extreme = 0, all = 0;
  do {
    ++all;
    extreme += std::abs(u_of(choice) - middle) >= far - 1e-9 ? 1 : 0;
  } while (std::next_permutation(choice.begin(), choice.end()));
  return static_cast<double>(extreme) / all;
}

TEST(Stats, UTestIsThePermutationTestTiesIncluded) {
  EXPECT_TRUE(rc::check([] {
    const auto values = [](int n) {
      return *rc::gen::container<std::vector<double>>(
          static_cast<std::size_t>(n), rc::gen::map(rc::gen::inRange(0, 6), [](int v) {
            return static_cast<double>(v);
          }));
    };
    const auto a = values(*rc::gen::inRange(1, 6)), b = values(*rc::gen::inRange(1, 6));
    RC_ASSERT(std::abs(mann_whitney(a, b).p - brute_force_p(a, b)) < 1e-9);
    RC_ASSERT(std::abs(mann_whitney(a, b).effect + mann_whitney(b, a).effect) < 1e-12);
  }));
}

TEST(Stats, UTestOfManyValuesIsNormal) {
  // 30 against 30, shifted by a fifth of the range: z = (u - 450) / sqrt(900 * 61 / 12).
  std::vector<double> a(30), b(30);
  std::iota(a.begin(), a.end(), 0);
  std::iota(b.begin(), b.end(), 6.5);
  const UTest test = mann_whitney(a, b);
  double u = 0;
  for (const double x : a)
    for (const double y : b) u += y > x ? 1 : 0;
  EXPECT_DOUBLE_EQ(test.u, u);
  const double z = (u - 450 - 0.5) / std::sqrt(900 * 61 / 12.0);
  EXPECT_NEAR(test.p, std::erfc(z / std::sqrt(2.0)), 1e-12);
}

}  // namespace
}  // namespace hpplan
