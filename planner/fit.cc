#include "planner/fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <set>

#include "planner/collectives.h"
#include "planner/spec/quantity.h"

namespace hpplan {

std::vector<double> fit_nonnegative(const std::vector<std::vector<double>>& rows,
                                    const std::vector<double>& b) {
  HP_CHECK(!rows.empty() && rows.size() == b.size() && rows[0].size() <= 8, rows.size(),
           " ", b.size());
  const auto m = static_cast<Eigen::Index>(rows.size());
  const auto n = static_cast<Eigen::Index>(rows[0].size());
  Eigen::MatrixXd all(m, n);
  Eigen::VectorXd target(m);
  for (Eigen::Index i = 0; i < m; ++i) {
    target(i) = b[static_cast<std::size_t>(i)];
    for (Eigen::Index j = 0; j < n; ++j)
      all(i, j) = rows[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
  }
  std::vector<double> best(static_cast<std::size_t>(n), 0);
  double least = target.squaredNorm();
  for (unsigned active = 1; active < (1u << n); ++active) {
    std::vector<Eigen::Index> columns;
    for (Eigen::Index j = 0; j < n; ++j)
      if ((active >> j & 1u) != 0) columns.push_back(j);
    Eigen::MatrixXd some(m, static_cast<Eigen::Index>(columns.size()));
    for (std::size_t j = 0; j < columns.size(); ++j)
      some.col(static_cast<Eigen::Index>(j)) = all.col(columns[j]);
    const Eigen::VectorXd x = some.colPivHouseholderQr().solve(target);
    if ((x.array() < 0).any() || !x.allFinite()) continue;
    const double error = (some * x - target).squaredNorm();
    if (error >= least) continue;
    least = error;
    std::fill(best.begin(), best.end(), 0);
    for (std::size_t j = 0; j < columns.size(); ++j)
      best[static_cast<std::size_t>(columns[j])] = x(static_cast<Eigen::Index>(j));
  }
  return best;
}

CurveFit fit_curve(Collective op, int ranks, const std::vector<BenchRow>& rows,
                   const Location& where) {
  std::set<double> sizes;
  for (const BenchRow& row : rows) sizes.insert(row.size.value);
  if (sizes.size() < 3)
    throw InputError(where, "",
                     concat(to_string(op), " over ", ranks, " ranks: ", sizes.size(),
                            " different sizes, a curve needs 3 or more"));
  // Scaled so that the three columns are alike: microseconds, GB, 10^4.5 bytes. First
  // relative to the measured times, then to the curve itself: noise that makes some
  // points short must not draw the curve under the mean.
  std::vector<double> level;
  for (const BenchRow& row : rows) level.push_back(row.time.value);
  const auto terms = [&](const BenchRow& row) {
    const double w = wire_bytes(op, ranks, row.size).value;
    return std::vector<double>{1e-6, row.contention * w / 1e9,
                               row.contention * std::sqrt(w) / 31622.8};
  };
  const auto solve = [&](bool with_root) {
    std::vector<std::vector<double>> a;
    std::vector<double> b;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      a.push_back(terms(rows[i]));
      if (!with_root) a.back().pop_back();
      for (double& term : a.back()) term /= level[i];
      b.push_back(rows[i].time.value / level[i]);
    }
    std::vector<double> x = fit_nonnegative(a, b);
    x.resize(3, 0);
    return x;
  };
  std::vector<double> x = solve(true);
  // Among noise the root alone can look best; the planner needs a bandwidth.
  const bool with_root = x[1] > 0;
  if (!with_root) x = solve(false);
  for (int pass = 0; pass < 10 && x[1] > 0; ++pass) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::vector<double> t = terms(rows[i]);
      level[i] = t[0] * x[0] + t[1] * x[1] + t[2] * x[2];
    }
    const std::vector<double> next = solve(with_root);
    if (next[1] <= 0) break;
    x = next;
  }
  if (x[1] <= 0)
    throw InputError(
        where, "",
        concat(
            to_string(op), " over ", ranks,
            " ranks: the times do not grow with the size, so no bandwidth can be told: "
            "measure up to larger sizes"));
  CurveFit fit;
  fit.curve.op = op;
  fit.curve.n = ranks;
  // Four significant digits: a fitted number has no more to say.
  const auto rounded = [](double value) {
    return parse_number(format_rounded(value, 4));
  };
  fit.curve.a = Seconds(rounded(x[0]) * 1e-6);
  fit.curve.bandwidth = BytesPerSecond(rounded(1 / x[1]) * 1e9);
  fit.curve.c = rounded(x[2] / 31622.8 * 1e9) * 1e-9;
  fit.curve.source = Source::kMeasured;
  fit.points = static_cast<int>(rows.size());
  for (const BenchRow& row : rows) {
    const Bytes w = wire_bytes(op, ranks, row.size);
    const double t =
        fit.curve.a.value + row.contention * ((w / fit.curve.bandwidth).value +
                                              fit.curve.c * std::sqrt(w.value));
    const double error = std::abs(t / row.time.value - 1);
    fit.mean_error += error / static_cast<double>(rows.size());
    if (error > fit.worst_error) {
      fit.worst_error = error;
      fit.worst_size = row.size;
    }
  }
  return fit;
}

std::vector<double> fit_factors(const std::vector<std::vector<double>>& parts,
                                const std::vector<double>& fixed,
                                const std::vector<double>& measured, double pull,
                                const std::vector<double>& so_far) {
  HP_CHECK(!parts.empty() && parts.size() == measured.size() &&
               fixed.size() == measured.size(),
           parts.size());
  constexpr double kLinearFrom = 0.1;
  const std::size_t n = parts[0].size();
  std::vector<double> weights(parts.size(), 1), x;
  for (int pass = 0; pass < 30; ++pass) {
    std::vector<std::vector<double>> a;
    std::vector<double> b;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      a.push_back(parts[i]);
      for (double& part : a.back()) part *= weights[i] / measured[i];
      b.push_back(weights[i] * (1 - fixed[i] / measured[i]));
    }
    for (std::size_t j = 0; j < n; ++j) {
      a.emplace_back(n, 0);
      a.back()[j] = pull * so_far[j];
      b.push_back(pull);
    }
    const std::vector<double> before = x;
    x = fit_nonnegative(a, b);
    double moved = before.empty() ? 1 : 0;
    for (std::size_t j = 0; j < before.size(); ++j)
      moved = std::max(moved, std::abs(x[j] - before[j]));
    if (moved < 1e-6) break;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      double residual = fixed[i] / measured[i] - 1;
      for (std::size_t j = 0; j < n; ++j) residual += x[j] * parts[i][j] / measured[i];
      weights[i] =
          std::sqrt(std::min(1.0, kLinearFrom / std::max(1e-12, std::abs(residual))));
    }
  }
  return x;
}

}  // namespace hpplan
