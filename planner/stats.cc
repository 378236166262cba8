#include "planner/stats.h"

#include <algorithm>
#include <cmath>

#include "planner/spec/error.h"

namespace hpplan {
namespace {

constexpr std::size_t kExact = 40;

// Doubled mean ranks of the pooled values, so that they are whole numbers; a's first.
std::vector<int> doubled_ranks(const std::vector<double>& pooled) {
  std::vector<std::size_t> order(pooled.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](std::size_t x, std::size_t y) { return pooled[x] < pooled[y]; });
  std::vector<int> ranks(pooled.size());
  for (std::size_t i = 0; i < order.size();) {
    std::size_t end = i + 1;
    while (end < order.size() && pooled[order[end]] == pooled[order[i]]) ++end;
    for (std::size_t j = i; j < end; ++j)
      ranks[order[j]] = static_cast<int>(i + end + 1);  // twice the mean of i+1 .. end
    i = end;
  }
  return ranks;
}

// Share of the ways to choose n of the ranks whose sum is as far from its mean as `sum`.
double exact_p(const std::vector<int>& ranks, std::size_t n, int sum) {
  int total = 0;
  for (const int rank : ranks) total += rank;
  const auto width = static_cast<std::size_t>(total) + 1;
  std::vector<double> ways((n + 1) * width, 0);  // by count and sum
  ways[0] = 1;
  int reached = 0;
  for (const int rank : ranks) {
    reached += rank;
    for (std::size_t k = n; k >= 1; --k)
      for (int s = reached; s >= rank; --s)
        ways[k * width + static_cast<std::size_t>(s)] +=
            ways[(k - 1) * width + static_cast<std::size_t>(s - rank)];
  }
  // The mean of the sum is total * n / N; compared in N-fold so that all stays whole.
  const auto all = static_cast<std::int64_t>(ranks.size());
  const std::int64_t mean =
      static_cast<std::int64_t>(total) * static_cast<std::int64_t>(n);
  const std::int64_t far = std::abs(all * sum - mean);
  double extreme = 0, every = 0;
  for (int s = 0; s <= total; ++s) {
    const double w = ways[n * width + static_cast<std::size_t>(s)];
    every += w;
    if (std::abs(all * s - mean) >= far) extreme += w;
  }
  return extreme / every;
}

double normal_p(const std::vector<int>& ranks, std::size_t n, std::size_t m, double u) {
  const double total = static_cast<double>(n + m);
  std::vector<int> sorted = ranks;
  std::sort(sorted.begin(), sorted.end());
  double ties = 0;
  for (std::size_t i = 0; i < sorted.size();) {
    std::size_t end = i + 1;
    while (end < sorted.size() && sorted[end] == sorted[i]) ++end;
    const auto t = static_cast<double>(end - i);
    ties += t * t * t - t;
    i = end;
  }
  const double product = static_cast<double>(n) * static_cast<double>(m);
  const double variance = product / 12 * (total + 1 - ties / (total * (total - 1)));
  if (variance <= 0) return 1;
  const double far = std::max(0.0, std::abs(u - product / 2) - 0.5);
  return std::erfc(far / std::sqrt(variance) / std::sqrt(2.0));
}

}  // namespace

double median(std::vector<double> values) {
  HP_CHECK(!values.empty(), "median of nothing");
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double spread(const std::vector<double>& values) {
  const double middle = median(values);
  std::vector<double> off;
  off.reserve(values.size());
  for (const double value : values) off.push_back(std::abs(value - middle));
  return median(off);
}

MedianInterval median_interval(std::vector<double> values, double confidence) {
  HP_CHECK(!values.empty(), "interval of nothing");
  std::sort(values.begin(), values.end());
  const auto n = static_cast<int>(values.size());
  // outside = P(fewer than k values below the median), grown with k while it may.
  const auto chance = [&](int k) {
    return std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) -
                    n * std::log(2.0));
  };
  int cut = 0;
  double outside = chance(0);
  while (2 * (cut + 1) < n && 2 * (outside + chance(cut + 1)) <= 1 - confidence)
    outside += chance(++cut);
  return {values[static_cast<std::size_t>(cut)],
          values[static_cast<std::size_t>(n - 1 - cut)], 1 - 2 * outside};
}

UTest mann_whitney(const std::vector<double>& a, const std::vector<double>& b) {
  HP_CHECK(!a.empty() && !b.empty(), "a test needs values on both sides");
  std::vector<double> pooled = a;
  pooled.insert(pooled.end(), b.begin(), b.end());
  const std::vector<int> ranks = doubled_ranks(pooled);
  int sum = 0;  // of b's doubled ranks
  for (std::size_t i = a.size(); i < ranks.size(); ++i) sum += ranks[i];
  const auto n = static_cast<double>(a.size()), m = static_cast<double>(b.size());
  UTest test;
  test.u = sum / 2.0 - m * (m + 1) / 2;
  test.effect = 2 * test.u / (n * m) - 1;
  test.p = pooled.size() <= kExact ? exact_p(ranks, b.size(), sum)
                                   : normal_p(ranks, a.size(), b.size(), test.u);
  return test;
}

}  // namespace hpplan
