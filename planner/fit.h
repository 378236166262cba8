// Least squares of what the planner calibrates, by Eigen.
#pragma once

#include <string>
#include <vector>

#include "planner/bench_import.h"
#include "planner/spec/rates.h"

namespace hpplan {

// x >= 0 that minimises |A x - b|: least squares over every set of active columns, the
// best one without a negative entry. rows[i] is a row of A; at most 8 columns.
std::vector<double> fit_nonnegative(const std::vector<std::vector<double>>& rows,
                                    const std::vector<double>& b);

struct CurveFit {
  CollectiveCurve curve;
  int points = 0;
  double mean_error = 0, worst_error = 0;  // of a point's time, relative
  Bytes worst_size;
};

// t = a + contention * (w/B + c*sqrt(w)), w wire bytes of a rank, by residuals relative
// to the curve. Every point
// counts the same, so that the middle sizes where protocols change weigh as much as the
// large ones. Throws InputError when the sizes are too few (three different ones) or no
// bandwidth comes out.
CurveFit fit_curve(Collective op, int ranks, const std::vector<BenchRow>& rows,
                   const Location& where);

// Factors on parts of a step: measured - fixed = sum of factor * part, residuals relative
// to measured, drawn with `pull` (1: as one run would) towards factor * so_far = 1; never
// negative. Residuals above a tenth count linearly (Huber), so that a run of something
// else does not set the level.
std::vector<double> fit_factors(const std::vector<std::vector<double>>& parts,
                                const std::vector<double>& fixed,
                                const std::vector<double>& measured, double pull,
                                const std::vector<double>& so_far);

}  // namespace hpplan
