// Statistics of measured times: the few that tuning and comparing need. No distribution
// is assumed: step times have long tails.
#pragma once

#include <vector>

namespace hpplan {

// Of a list that is not empty.
double median(std::vector<double> values);
// Median absolute deviation from the median.
double spread(const std::vector<double>& values);

// An interval that holds the true median with at least `confidence`, from order
// statistics: the chance that fewer than k of n values fall below the median is
// binomial(n, 1/2). With fewer than six values no such interval exists at 95 %: then it
// is the whole range, and `confidence` says what that is worth.
struct MedianInterval {
  double low = 0, high = 0;
  double confidence = 0;
};
MedianInterval median_interval(std::vector<double> values, double confidence);

// Mann-Whitney: are values of `b` as a rule larger than those of `a`? Exact over all ways
// to deal the pooled ranks (ties get their mean rank) up to kExact values, normal with
// tie correction above.
struct UTest {
  double u = 0;       // pairs with b > a, ties half
  double p = 1;       // two-sided
  double effect = 0;  // Cliff's delta, -1 to 1: P(b > a) - P(b < a)
};
UTest mann_whitney(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace hpplan
