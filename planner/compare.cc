#include "planner/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/spec/document.h"
#include "planner/spec/quantity.h"

namespace hpplan {
namespace {

// The smallest p that n against m values can reach: all of one side above all of the
// other.
double least_p(int n, int m) {
  std::vector<double> low(static_cast<std::size_t>(n)), high(static_cast<std::size_t>(m));
  for (int i = 0; i < n; ++i) low[static_cast<std::size_t>(i)] = i;
  for (int i = 0; i < m; ++i) high[static_cast<std::size_t>(i)] = n + i;
  return mann_whitney(low, high).p;
}

Compared judge(const BenchmarkSeries& base, const BenchmarkSeries& now,
               const CompareOptions& options) {
  Compared c{.name = base.name};
  c.base_runs = static_cast<int>(base.seconds.size());
  c.now_runs = static_cast<int>(now.seconds.size());
  if (c.base_runs > 0) c.base = median(base.seconds);
  if (c.now_runs > 0) c.now = median(now.seconds);
  if (!now.errors.empty() && base.errors.empty()) {
    c.verdict = Verdict::kFailed;
    c.note = now.errors.front();
    return c;
  }
  if (c.base_runs == 0 || c.now_runs == 0) {
    c.verdict = c.base_runs == 0 && c.now_runs > 0 ? Verdict::kNew : Verdict::kUndecided;
    c.note = c.base_runs == 0 ? "failed in the base" : "failed in both";
    return c;
  }
  c.change = c.now / c.base - 1;
  c.test = mann_whitney(base.seconds, now.seconds);
  if (std::abs(c.change) <= options.threshold) return c;
  if (c.test.p <= options.alpha) {
    c.verdict = c.change > 0 ? Verdict::kSlower : Verdict::kFaster;
    return c;
  }
  c.verdict = Verdict::kUndecided;
  const double least = least_p(c.base_runs, c.now_runs);
  c.note = least > options.alpha
               ? fmt::format("{} against {} repetitions cannot reach p {}; run more",
                             c.base_runs, c.now_runs, format_rounded(options.alpha, 3))
               : "within the noise; run more repetitions";
  return c;
}

std::string time_text(double seconds) {
  return seconds > 0 ? format(Seconds(std::stod(format_rounded(seconds, 4)))) : "-";
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kSame:
      return "same";
    case Verdict::kFaster:
      return "faster";
    case Verdict::kSlower:
      return "slower";
    case Verdict::kUndecided:
      return "undecided";
    case Verdict::kFailed:
      return "failed";
    case Verdict::kMissing:
      return "missing";
    case Verdict::kNew:
      return "new";
  }
  return "";
}

std::vector<Compared> compare(const std::vector<BenchmarkSeries>& base,
                              const std::vector<BenchmarkSeries>& now,
                              const CompareOptions& options) {
  const auto find = [](const std::vector<BenchmarkSeries>& all, const std::string& name) {
    return std::find_if(all.begin(), all.end(),
                        [&](const BenchmarkSeries& s) { return s.name == name; });
  };
  std::vector<Compared> result;
  for (const BenchmarkSeries& b : base) {
    const auto n = find(now, b.name);
    if (n != now.end()) {
      result.push_back(judge(b, *n, options));
      continue;
    }
    Compared c{.name = b.name, .verdict = Verdict::kMissing};
    c.base_runs = static_cast<int>(b.seconds.size());
    if (c.base_runs > 0) c.base = median(b.seconds);
    result.push_back(c);
  }
  for (const BenchmarkSeries& n : now) {
    if (find(base, n.name) != base.end()) continue;
    Compared c{.name = n.name, .verdict = Verdict::kNew};
    c.now_runs = static_cast<int>(n.seconds.size());
    if (c.now_runs > 0) c.now = median(n.seconds);
    result.push_back(c);
  }
  return result;
}

bool regressed(const std::vector<Compared>& compared) {
  return std::any_of(compared.begin(), compared.end(), [](const Compared& c) {
    return c.verdict == Verdict::kSlower || c.verdict == Verdict::kFailed ||
           c.verdict == Verdict::kMissing;
  });
}

std::string compare_text(const std::vector<Compared>& compared,
                         const CompareOptions& options) {
  std::size_t width = 4;
  for (const Compared& c : compared) width = std::max(width, c.name.size());
  std::string text =
      fmt::format("{:<{}}  {:>9}  {:>9}  {:>8}  {:>6}  {:>7}  {:>7}  verdict\n", "name",
                  width, "base", "now", "change", "effect", "p", "runs");
  for (const Compared& c : compared) {
    const bool both = c.base > 0 && c.now > 0;
    text += fmt::format("{:<{}}  {:>9}  {:>9}  {:>8}  {:>6}  {:>7}  {:>7}  {}{}\n",
                        c.name, width, time_text(c.base), time_text(c.now),
                        both ? fmt::format("{:+.1f} %", 100 * c.change) : "-",
                        both ? fmt::format("{:+.2f}", c.test.effect) : "-",
                        both ? fmt::format("{:.4f}", c.test.p) : "-",
                        fmt::format("{}/{}", c.base_runs, c.now_runs),
                        to_string(c.verdict), c.note.empty() ? "" : ": " + c.note);
  }
  return text +
         fmt::format(
             "\nchange: of the median; effect: Cliff's delta, +1 when every new run is "
             "slower; p: Mann-Whitney U, two-sided\nslower or faster: change above {} % "
             "and p at most {}\n",
             format_rounded(100 * options.threshold, 3),
             format_rounded(options.alpha, 3));
}

std::string compare_json(const std::vector<Compared>& compared,
                         const CompareOptions& options) {
  Document d;
  d["regressed"] = regressed(compared);
  d["threshold"] = options.threshold;
  d["alpha"] = options.alpha;
  d["benchmarks"] = Document::array();
  for (const Compared& c : compared)
    d["benchmarks"].push_back({{"name", c.name},
                               {"verdict", std::string(to_string(c.verdict))},
                               {"base_s", c.base},
                               {"now_s", c.now},
                               {"change", c.change},
                               {"effect", c.test.effect},
                               {"u", c.test.u},
                               {"p", c.test.p},
                               {"base_runs", c.base_runs},
                               {"now_runs", c.now_runs},
                               {"note", c.note}});
  return to_json(d);
}

}  // namespace hpplan
