#include "planner/compare.h"

#include <gtest/gtest.h>

#include "planner/spec/error.h"

namespace hpplan {
namespace {

Compared one(const std::vector<double>& base, const std::vector<double>& now) {
  return compare({{"x", base, {}}}, {{"x", now, {}}}, {}).at(0);
}

TEST(Compare, ADifferenceMustMatterAndBeSure) {
  const std::vector<double> base = {1.00, 1.01, 1.02, 0.99, 1.00};
  EXPECT_EQ(one(base, {1.10, 1.11, 1.12, 1.09, 1.10}).verdict, Verdict::kSlower);
  EXPECT_EQ(one(base, {0.90, 0.91, 0.92, 0.89, 0.90}).verdict, Verdict::kFaster);
  // Sure, but of no weight: every value above, by 2 %.
  const Compared small =
      one({1.000, 1.001, 1.002, 1.003, 1.004}, {1.020, 1.021, 1.022, 1.023, 1.024});
  EXPECT_EQ(small.verdict, Verdict::kSame);
  EXPECT_LT(small.test.p, 0.05);
  EXPECT_DOUBLE_EQ(small.test.effect, 1);
  // Of weight, but not sure.
  EXPECT_EQ(one({1.0, 1.2, 0.9, 1.3, 1.1}, {1.2, 1.0, 1.4, 1.25, 0.95}).verdict,
            Verdict::kUndecided);
  const Compared few = one({1, 1.01, 1.02}, {2, 2.01, 2.02});
  EXPECT_EQ(few.verdict, Verdict::kUndecided);
  EXPECT_NE(few.note.find("run more"), std::string::npos);
  EXPECT_FALSE(regressed({few, small}));
}

TEST(Compare, FailedMissingAndNew) {
  const auto all =
      compare({{"a", {1, 1}, {}}, {"b", {1, 1}, {}}, {"c", {}, {"broken"}}},
              {{"a", {1}, {"rank 3 hung"}}, {"d", {1}, {}}, {"c", {1}, {}}}, {});
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0].verdict, Verdict::kFailed);
  EXPECT_EQ(all[0].note, "rank 3 hung");
  EXPECT_EQ(all[1].verdict, Verdict::kMissing);
  EXPECT_EQ(all[2].verdict, Verdict::kNew);  // broken before, runs now
  EXPECT_EQ(all[3].verdict, Verdict::kNew);
  EXPECT_TRUE(regressed({all[0]}));
  EXPECT_TRUE(regressed({all[1]}));
  EXPECT_FALSE(regressed({all[2], all[3]}));
}

// As Google Benchmark 1.7 writes it, with repetitions and aggregates.
constexpr const char* kGoogle = R"({
  "context": {"date": "2026-01-01T00:00:00+00:00", "num_cpus": 2, "library_build_type": "release"},
  "benchmarks": [
    {"name": "BM_Search/64", "run_name": "BM_Search/64", "run_type": "iteration", "repetitions": 2,
     "repetition_index": 0, "threads": 1, "iterations": 100, "real_time": 7.5, "cpu_time": 7.4, "time_unit": "ms"},
    {"name": "BM_Search/64", "run_name": "BM_Search/64", "run_type": "iteration", "repetitions": 2,
     "repetition_index": 1, "threads": 1, "iterations": 100, "real_time": 7700, "cpu_time": 7400, "time_unit": "us"},
    {"name": "BM_Search/64_mean", "run_name": "BM_Search/64", "run_type": "aggregate", "aggregate_name": "mean",
     "threads": 1, "iterations": 2, "real_time": 7.6, "cpu_time": 7.5, "time_unit": "ms"},
    {"name": "BM_Other", "run_name": "BM_Other", "run_type": "iteration", "error_occurred": true,
     "error_message": "no device", "real_time": 0, "cpu_time": 0, "time_unit": "ns"}
  ]
})";

TEST(BenchmarkJson, ReadsGoogleBenchmark) {
  const auto all = parse_benchmark_json(kGoogle, "g.json");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].name, "BM_Search/64");
  ASSERT_EQ(all[0].seconds.size(), 2U);
  EXPECT_NEAR(all[0].seconds[0], 7.5e-3, 1e-12);
  EXPECT_NEAR(all[0].seconds[1], 7.7e-3, 1e-12);
  EXPECT_EQ(all[1].errors, std::vector<std::string>{"no device"});
}

TEST(BenchmarkJson, ReadsWhatItWrote) {
  PlanRuns p{.name = "m/t/tp2",
             .file = "p.yaml",
             .plan = {.chosen = {.mesh = Mesh(Degrees{}, {}, {0}, {0})}}};
  for (const double s : {0.010, 0.011, 0.012}) {
    Measurement m;
    m.step_median = m.step_min = m.step_max = Seconds(s);
    m.iterations = 5;
    p.runs.push_back(m);
  }
  Measurement failed;
  failed.error = "rank 1 hung";
  p.runs.push_back(failed);
  const std::string text = benchmark_json({p}, "hprun 1");
  for (const char* key :
       {"\"context\"", "\"run_type\": \"iteration\"", "\"time_unit\": \"ms\"",
        "\"aggregate_name\": \"median\"", "\"repetition_index\": 3"})
    EXPECT_NE(text.find(key), std::string::npos) << key << "\n" << text;
  const auto all = parse_benchmark_json(text, "now.json");
  ASSERT_EQ(all.size(), 1U);
  ASSERT_EQ(all[0].seconds.size(), 3U);
  EXPECT_NEAR(all[0].seconds[2], 0.012, 1e-12);
  EXPECT_EQ(all[0].errors, std::vector<std::string>{"rank 1 hung"});
}

TEST(BenchmarkJson, RefusesWhatIsNone) {
  for (const char* text :
       {"", "{", "[]", "{}", R"({"benchmarks": []})", R"({"benchmarks": [1]})",
        R"({"benchmarks": [{"name": "x"}]})",
        R"({"benchmarks": [{"name": "x", "real_time": -1, "time_unit": "ms"}]})",
        R"({"benchmarks": [{"name": "x", "real_time": 1, "time_unit": "weeks"}]})"})
    EXPECT_THROW(parse_benchmark_json(text, "f.json"), InputError) << text;
}

}  // namespace
}  // namespace hpplan
