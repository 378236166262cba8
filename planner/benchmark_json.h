// Results of repeated runs in Google Benchmark's JSON, which its tools/compare.py reads
// too. Reading takes any file of that format, ours or another program's.
#pragma once

#include <string>
#include <vector>

#include "planner/spec/plan.h"

namespace hpplan {

// One benchmark: a plan, or whatever a file names.
struct BenchmarkSeries {
  std::string name;
  std::vector<double> seconds;  // of each repetition that succeeded (its median step)
  std::vector<std::string> errors;
};

// A plan that `hpplan bench` ran.
struct PlanRuns {
  std::string name;  // "minimax-h3/hgx-h200/tp2 x ulysses4"
  std::string file;  // of the plan
  Plan plan;
  std::vector<Measurement> runs;  // a repetition each
};

// A repetition is one `iteration` row (its median step, with spread, memory and predicted
// time as counters); mean, median, stddev and cv follow as aggregates.
std::string benchmark_json(const std::vector<PlanRuns>& plans, const std::string& runner);

// Throws InputError for text that is not such a file.
std::vector<BenchmarkSeries> parse_benchmark_json(const std::string& text,
                                                  const std::string& file);

}  // namespace hpplan
