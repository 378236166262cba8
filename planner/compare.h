// Two results of the same benchmarks: is the newer one slower? A verdict needs both a
// difference that matters (threshold) and one that chance hardly makes (U test).
#pragma once

#include <string>
#include <vector>

#include "planner/benchmark_json.h"
#include "planner/stats.h"

namespace hpplan {

struct CompareOptions {
  double threshold = 0.03;  // of the median
  double alpha = 0.05;
};

enum class Verdict : std::uint8_t {
  kSame,  // no difference above the threshold
  kFaster,
  kSlower,
  kUndecided,  // a difference above the threshold that chance may have made
  kFailed,     // ran before, failed now
  kMissing,    // in the base, not in the newer
  kNew,        // the other way round
};
std::string_view to_string(Verdict verdict);

struct Compared {
  std::string name;
  Verdict verdict = Verdict::kSame;
  double base = 0, now = 0;  // medians, seconds; 0: none
  double change = 0;         // now / base - 1
  UTest test;
  int base_runs = 0, now_runs = 0;
  std::string note;  // why undecided, what failed
};

std::vector<Compared> compare(const std::vector<BenchmarkSeries>& base,
                              const std::vector<BenchmarkSeries>& now,
                              const CompareOptions& options);

// Slower, failed or missing anywhere.
bool regressed(const std::vector<Compared>& compared);

std::string compare_text(const std::vector<Compared>& compared,
                         const CompareOptions& options);
std::string compare_json(const std::vector<Compared>& compared,
                         const CompareOptions& options);

}  // namespace hpplan
