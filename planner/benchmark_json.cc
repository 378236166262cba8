#include "planner/benchmark_json.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <map>

#include "planner/spec/document.h"
#include "planner/spec/error.h"
#include "planner/stats.h"

namespace hpplan {
namespace {

std::string local_time() {
  const std::time_t time = std::time(nullptr);
  std::tm parts{};
  localtime_r(&time, &parts);
  char text[40];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S%z", &parts);
  std::string with_colon = text;
  if (with_colon.size() > 2) with_colon.insert(with_colon.size() - 2, ":");
  return with_colon;
}

Document context(const std::string& runner) {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  double load[3] = {};
  const int loads = getloadavg(load, 3);
  Document d;
  d["date"] = local_time();
  d["host_name"] = host;
  d["executable"] = runner;
  d["num_cpus"] = sysconf(_SC_NPROCESSORS_ONLN);
  d["mhz_per_cpu"] = 0;
  d["cpu_scaling_enabled"] = false;
  d["caches"] = Document::array();
  d["load_avg"] = Document::array();
  for (int i = 0; i < loads; ++i) d["load_avg"].push_back(load[i]);
  d["library_build_type"] = "release";
  d["json_schema_version"] = 1;
  return d;
}

constexpr double kMs = 1e3;

void rows_of(const PlanRuns& p, int family, Document& rows) {
  const auto repetitions = static_cast<int>(p.runs.size());
  const auto row = [&](const std::string& name, const char* type) {
    Document d;
    d["name"] = name;
    d["family_index"] = family;
    d["per_family_instance_index"] = 0;
    d["run_name"] = p.name;
    d["run_type"] = type;
    d["repetitions"] = repetitions;
    return d;
  };
  std::vector<double> medians;
  for (int i = 0; i < repetitions; ++i) {
    const Measurement& m = p.runs[static_cast<std::size_t>(i)];
    Document d = row(p.name, "iteration");
    d["repetition_index"] = i;
    d["threads"] = 1;
    d["iterations"] = m.iterations;
    if (!m.error.empty()) {
      d["error_occurred"] = true;
      d["error_message"] = m.error;
    }
    const double time = m.error.empty() ? m.step_median.value * kMs : 0;
    d["real_time"] = time;
    d["cpu_time"] = time;  // no other clock is read; compare.py wants the key
    d["time_unit"] = "ms";
    if (m.error.empty()) {
      medians.push_back(time);
      d["ranks"] = p.plan.chosen.mesh.size();
      d["step_min_ms"] = m.step_min.value * kMs;
      d["step_max_ms"] = m.step_max.value * kMs;
      d["step_spread_ms"] = m.step_spread.value * kMs;
      d["peak_bytes"] = m.peak_memory.value;
      d["predicted_ms"] = p.plan.chosen.predicted.step.value * kMs;
      d["plan_hash"] = p.plan.hash;
    }
    rows.push_back(std::move(d));
  }
  if (medians.size() < 2) return;
  const auto n = static_cast<double>(medians.size());
  double mean = 0, squares = 0;
  for (const double time : medians) mean += time / n;
  for (const double time : medians) squares += (time - mean) * (time - mean);
  const double deviation = std::sqrt(squares / (n - 1));
  const auto aggregate = [&](const char* name, double value, const char* unit) {
    Document d = row(concat(p.name, "_", name), "aggregate");
    d["threads"] = 1;
    d["aggregate_name"] = name;
    d["aggregate_unit"] = unit;
    d["iterations"] = medians.size();
    d["real_time"] = value;
    d["cpu_time"] = value;
    d["time_unit"] = "ms";
    rows.push_back(std::move(d));
  };
  aggregate("mean", mean, "time");
  aggregate("median", median(medians), "time");
  aggregate("stddev", deviation, "time");
  aggregate("cv", deviation / mean, "percentage");
}

}  // namespace

std::string benchmark_json(const std::vector<PlanRuns>& plans,
                           const std::string& runner) {
  Document d;
  d["context"] = context(runner);
  d["benchmarks"] = Document::array();
  int family = 0;
  for (const PlanRuns& p : plans) rows_of(p, family++, d["benchmarks"]);
  return to_json(d);
}

std::vector<BenchmarkSeries> parse_benchmark_json(const std::string& text,
                                                  const std::string& file) {
  const Document d = Document::parse(text, nullptr, false);
  const auto refuse = [&](const std::string& what) {
    throw InputError({file}, "", what);
  };
  if (d.is_discarded()) refuse("is not JSON");
  if (!d.is_object() || !d.contains("benchmarks") || !d["benchmarks"].is_array())
    refuse(
        "has no list `benchmarks`: not a result of hpplan bench or of Google Benchmark");
  static const std::map<std::string, double> kUnits = {
      {"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
  std::vector<BenchmarkSeries> all;
  std::size_t number = 0;
  for (const Document& row : d["benchmarks"]) {
    const std::string key = concat("benchmarks[", number++, "]");
    const auto text_at = [&](const char* name) {
      return row.is_object() && row.contains(name) && row[name].is_string()
                 ? row[name].get<std::string>()
                 : std::string();
    };
    std::string name = text_at("run_name");
    if (name.empty()) name = text_at("name");
    if (name.empty()) throw InputError({file}, key, "has no name");
    if (text_at("run_type") == "aggregate") continue;
    const auto same = std::find_if(
        all.begin(), all.end(), [&](const BenchmarkSeries& s) { return s.name == name; });
    BenchmarkSeries& series = same != all.end() ? *same : all.emplace_back();
    series.name = name;
    if (row.contains("error_occurred") && row["error_occurred"] == true) {
      series.errors.push_back(text_at("error_message"));
      continue;
    }
    const auto unit =
        kUnits.find(row.contains("time_unit") ? text_at("time_unit") : "ns");
    if (unit == kUnits.end() || !row.contains("real_time") ||
        !row["real_time"].is_number())
      throw InputError({file}, key,
                       "expected real_time as a number and time_unit ns, us, ms or s");
    const double seconds = row["real_time"].get<double>() * unit->second;
    if (!(seconds > 0) || !std::isfinite(seconds))
      throw InputError({file}, concat(key, ".real_time"), "expected a time above 0");
    series.seconds.push_back(seconds);
  }
  if (all.empty()) refuse("has no benchmarks");
  return all;
}

}  // namespace hpplan
