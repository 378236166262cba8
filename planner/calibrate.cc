#include "planner/calibrate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "planner/collectives.h"
#include "planner/cost.h"
#include "planner/match.h"
#include "planner/rules.h"
#include "planner/spec/engine_yaml.h"
#include "planner/spec/local.h"
#include "planner/spec/plan_yaml.h"
#include "planner/spec/quantity.h"
#include "planner/spec/rates_yaml.h"
#include "planner/spec/topology_yaml.h"
#include "planner/spec/yaml_reader.h"

namespace hpplan {
namespace {

// Two tables of one collective may differ by this much at the same size before they
// contradict each other: another day, another driver. Two runs of the same layout by
// less.
constexpr double kTablesApart = 1.3;
constexpr double kRunsApart = 1.25;
// Weight that draws the factors towards 1, in runs.
constexpr double kPull = 0.25;

struct Run {
  Problem problem;
  Degrees degrees;
  RingMethod method = RingMethod::kP2p;
  Split split;
  Mesh mesh;
  AxisPaths paths;
  double seconds = 0;
  std::string what, from, identity;
};

// So many significant digits: a fitted number has no more to say.
double rounded(double value, int digits) {
  return parse_number(format_rounded(value, digits));
}

double curve_seconds(const CollectiveCurve& curve, Bytes size) {
  const Bytes w = wire_bytes(curve.op, curve.n, size);
  return curve.a.value + (w / curve.bandwidth).value + curve.c * std::sqrt(w.value);
}

const CollectiveCurve* curve_of(const FabricRates& fabric, Collective op, int n) {
  for (const CollectiveCurve& curve : fabric.curves)
    if (curve.op == op && curve.n == n) return &curve;
  return nullptr;
}

// Throws when a table's times at sizes both have are far from those of another.
void check_agreement(const BenchTable& a, const BenchTable& b) {
  std::map<double, double> times;
  for (const BenchRow& row : a.rows) times[row.size.value] = row.time.value;
  std::vector<double> ratios;
  for (const BenchRow& row : b.rows)
    if (const auto at = times.find(row.size.value); at != times.end())
      ratios.push_back(row.time.value / at->second);
  if (ratios.empty()) return;
  std::sort(ratios.begin(), ratios.end());
  const double middle = ratios[ratios.size() / 2];
  if (middle <= kTablesApart && middle >= 1 / kTablesApart) return;
  throw InputError(
      b.where, "",
      concat("contradicts ", a.where.file, ":", a.where.line, ": ", to_string(b.op),
             " over ", b.ranks, " ranks takes ", middle,
             " times as long at the same sizes; give the tables of one machine"));
}

void fit_links(const std::vector<BenchTable>& tables, Calibration& out) {
  std::map<std::pair<Collective, int>, std::vector<const BenchTable*>> by_curve;
  for (const BenchTable& table : tables)
    by_curve[{table.op, table.ranks}].push_back(&table);
  for (const auto& [key, same] : by_curve) {
    std::vector<BenchRow> rows;
    CurveReport report;
    for (const BenchTable* table : same) {
      check_agreement(*same.front(), *table);
      rows.insert(rows.end(), table->rows.begin(), table->rows.end());
      report.from += (report.from.empty() ? "" : ", ") + table->where.file;
      report.how = table->how;
    }
    report.fit = fit_curve(key.first, key.second, rows, same.front()->where);
    report.fit.curve.confidence = {report.fit.points, rounded(report.fit.mean_error, 3)};
    if (const CollectiveCurve* before = curve_of(out.fabric, key.first, key.second)) {
      report.had_before = true;
      for (const BenchRow& row : rows)
        report.error_before +=
            std::abs(curve_seconds(*before, row.size) / row.time.value - 1) /
            static_cast<double>(rows.size());
    }
    auto& curves = out.fabric.curves;
    curves.erase(std::remove_if(curves.begin(), curves.end(),
                                [&, op = key.first, n = key.second](
                                    const CollectiveCurve& c) {
                                  return c.op == op && c.n == n;
                                }),
                 curves.end());
    curves.push_back(report.fit.curve);
    out.curves.push_back(std::move(report));
  }
  if (by_curve.empty()) return;
  std::sort(out.fabric.curves.begin(), out.fabric.curves.end(),
            [](const CollectiveCurve& a, const CollectiveCurve& b) {
              return std::pair(to_string(a.op), a.n) < std::pair(to_string(b.op), b.n);
            });
  out.fabric_fitted = true;
}

Run run_of(const Problem& problem, Degrees degrees, RingMethod method, const Split& split,
           const Mesh& mesh, double seconds, const std::string& from,
           const std::string& identity) {
  return {.problem = problem,
          .degrees = degrees,
          .method = method,
          .split = split,
          .mesh = mesh,
          .paths = paths_of(problem, mesh, method),
          .seconds = seconds,
          .what = concat(problem.model.name, ", ", degrees.str(), ", ",
                         problem.engine.stack.name),
          .from = from,
          .identity = identity};
}

// The machine a plan names: a plan file has its name and size alone. "hgx-h200-x2" is two
// of one.
Topology machine_of(const Plan& plan, const Catalog& catalog) {
  const std::string& name = plan.topology.name;
  const int devices = plan.topology.devices();
  if (name == "local") return local_topology(devices);
  const std::vector<std::string> known = catalog.names(DataKind::kTopology);
  const std::size_t copies = name.rfind("-x");
  const bool own = std::find(known.begin(), known.end(), name) != known.end();
  const Catalog::Entry entry =
      catalog.find(DataKind::kTopology,
                   own || copies == std::string::npos ? name : name.substr(0, copies));
  const Topology machine = parse_topology(entry.text, entry.file);
  return machine.devices() >= devices ? machine
                                      : with_nodes(machine, devices / machine.devices());
}

Run run_of_plan(const Plan& plan, const Measurement& measured, const Catalog& catalog,
                const std::string& from) {
  const Topology machine = machine_of(plan, catalog);
  const Catalog::Entry device = catalog.find(DataKind::kDevice, machine.device);
  FabricRates fabric;
  if (!machine.fabric.empty()) {
    const Catalog::Entry entry = catalog.find(DataKind::kFabric, machine.fabric);
    fabric = parse_fabric(entry.text, entry.file);
  }
  const Catalog::Entry software = catalog.find(DataKind::kEngine, plan.engine.name);
  Engine engine = parse_engine(software.text, software.file);
  use_stack(engine, machine.vendor);
  const Problem problem = make_problem(
      plan.model, plan.workload, machine, std::move(engine),
      parse_device(device.text, device.file), std::move(fabric), plan.fabric_rules);
  const Degrees& degrees = plan.chosen.mesh.degrees();
  const auto split = split_of(problem, degrees, plan.chosen.ring_method);
  if (!split)
    throw InputError({from}, "",
                     concat(degrees.str(), " is no legal layout of its own plan"));
  return run_of(problem, degrees, plan.chosen.ring_method, *split, plan.chosen.mesh,
                measured.step_median.value, from, plan.hash);
}

// Rows of published groups on the device. Times of a step go before whole requests, which
// have 10 to 50 % of other time in them: those are used only where there is nothing else.
std::vector<Run> runs_of_groups(const CalibrationInput& input, const Catalog& catalog,
                                const std::string& device,
                                std::vector<std::string>& notes) {
  std::vector<Run> of_steps, of_requests;
  Matcher matcher(catalog);
  std::map<std::string, int> left_out;
  int elsewhere = 0;
  for (const MeasuredGroup& group : parse_measurements(input.text, input.file))
    for (const MeasuredRow& row : group.rows) {
      const auto matched = matcher.match(group, row, {});
      const MatchedRow* m = std::get_if<MatchedRow>(&matched);
      if (m == nullptr || m->problem->device.name != device) {
        ++elsewhere;
        continue;
      }
      const auto split = split_of(*m->problem, m->degrees, m->method);
      if (m->failed || !m->per_step || !split) {
        ++left_out[m->failed ? "did not run"
                   : !split  ? "the rules refuse their layout"
                             : "give no time of a step"];
        continue;
      }
      auto mesh = engine_mesh(*m->problem, m->degrees);
      if (!mesh) mesh = Mesh::from_order(m->degrees, m->problem->engine.rank_order);
      const std::string identity = concat(group.id, '|', row.subgroup, '|',
                                          m->degrees.str(), '|', to_string(m->method));
      const bool step = group.unit.find('/') != std::string::npos;
      (step ? of_steps : of_requests)
          .push_back(run_of(*m->problem, m->degrees, m->method, *split, *mesh, m->seconds,
                            concat(input.file, ":", row.line), identity));
    }
  if (elsewhere > 0)
    notes.push_back(
        concat(input.file, ": ", elsewhere,
               " rows are of other devices, or of what no prediction is made for"));
  if (!of_steps.empty() && !of_requests.empty())
    left_out["are whole requests, with other time in them"] =
        static_cast<int>(of_requests.size());
  if (of_steps.empty() && !of_requests.empty())
    notes.push_back(concat(
        input.file,
        ": whole requests only: what they do beside the steps counts as slower compute"));
  for (const auto& [reason, count] : left_out)
    notes.push_back(concat(input.file, ": ", count, " rows left out: they ", reason));
  return of_steps.empty() ? of_requests : of_steps;
}

void check_runs(const std::vector<Run>& runs) {
  std::map<std::string, const Run*> seen;
  for (const Run& run : runs) {
    const auto [at, fresh] = seen.emplace(run.identity, &run);
    if (fresh) continue;
    const double ratio = run.seconds / at->second->seconds;
    if (ratio > kRunsApart || ratio < 1 / kRunsApart)
      throw InputError(
          {run.from}, "",
          concat("contradicts ", at->second->from, ": ", run.what, " took ", run.seconds,
                 " s a step here and ", at->second->seconds, " s there"));
  }
}

void scale(DeviceRates& device, double compute, double attention, int digits = 17) {
  const auto divided = [digits](double efficiency, double factor) {
    return rounded(std::min(1.0, efficiency / factor), digits);
  };
  device.gemm.emax = divided(device.gemm.emax, compute);
  device.gemm_fp8.emax = divided(device.gemm_fp8.emax, compute);
  device.memory_efficiency = divided(device.memory_efficiency, compute);
  for (AttentionRates* rates : {&device.attention, &device.attention_fa2})
    for (double* emax : {&rates->emax_d64, &rates->emax_d80, &rates->emax_d128})
      *emax = divided(*emax, attention);
}

void fit_software(std::vector<Run>& runs, Calibration& out) {
  if (runs.empty()) return;
  const auto predicted = [&](Run& run) {
    run.problem.device = out.device;
    return predict(run.problem, run.degrees, run.method, run.split, run.paths).breakdown;
  };
  for (Run& run : runs)
    out.runs.push_back({run.what, run.from, run.seconds, predicted(run).step().value, 0});
  // The soft corner between device and host time is not linear, so the parts move a
  // little once factors are in.
  for (int pass = 0; pass < 6; ++pass) {
    std::vector<std::vector<double>> parts;
    std::vector<double> fixed, measured;
    for (Run& run : runs) {
      const CostBreakdown cost = predicted(run);
      parts.push_back({cost.compute.value, cost.attention.value});
      fixed.push_back(cost.step().value - cost.compute.value - cost.attention.value);
      measured.push_back(run.seconds);
    }
    const std::vector<double> factors = fit_factors(
        parts, fixed, measured, kPull, {out.compute_factor, out.attention_factor});
    if (factors[0] < 0.05 || factors[1] < 0.05)
      throw InputError({runs.front().from}, "",
                       "the runs are faster than their collectives and host time alone: "
                       "rates of another device, or times "
                       "of something else than a whole step");
    scale(out.device, factors[0], factors[1]);
    out.compute_factor *= factors[0];
    out.attention_factor *= factors[1];
    if (std::abs(factors[0] - 1) < 1e-3 && std::abs(factors[1] - 1) < 1e-3) break;
  }
  double error = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    out.runs[i].after = predicted(runs[i]).step().value;
    error += std::abs(out.runs[i].after / runs[i].seconds - 1) /
             static_cast<double>(runs.size());
  }
  const Confidence confidence{static_cast<int>(runs.size()), rounded(error, 3)};
  scale(out.device, 1, 1, 4);
  for (GemmRates* rates : {&out.device.gemm, &out.device.gemm_fp8}) {
    rates->source = Source::kFitted;
    rates->confidence = confidence;
  }
  for (AttentionRates* rates : {&out.device.attention, &out.device.attention_fa2}) {
    rates->source = Source::kFitted;
    rates->confidence = confidence;
  }
  out.device_fitted = true;
  std::set<std::string> stacks;
  for (const Run& run : runs) stacks.insert(run.problem.engine.stack.name);
  if (stacks.size() > 1)
    out.notes.push_back(concat("runs of ", stacks.size(),
                               " software stacks: the level is their mean; calibrate "
                               "each stack alone for a closer one"));
}

std::string fabric_of(const Catalog& catalog, const std::string& device) {
  for (const Catalog::Entry& entry : catalog.all(DataKind::kTopology)) {
    const Topology topology = parse_topology(entry.text, entry.file);
    if (topology.device == device && !topology.fabric.empty()) return topology.fabric;
  }
  return "";
}

}  // namespace

Calibration calibrate(const Catalog& catalog, const std::string& device,
                      const std::string& like, const std::string& fabric,
                      const std::vector<CalibrationInput>& inputs) {
  Calibration out;
  const Catalog::Entry own =
      catalog.find(DataKind::kDevice, like.empty() ? device : like);
  out.device = parse_device(own.text, own.file);
  out.device.name = device;
  const std::string link =
      !fabric.empty() ? fabric : fabric_of(catalog, like.empty() ? device : like);
  const std::vector<std::string> fabrics = catalog.names(DataKind::kFabric);
  if (std::find(fabrics.begin(), fabrics.end(), link) != fabrics.end()) {
    const Catalog::Entry entry = catalog.find(DataKind::kFabric, link);
    out.fabric = parse_fabric(entry.text, entry.file);
  }
  out.fabric.name = link.empty() ? device : link;

  std::vector<BenchTable> tables;
  std::vector<Run> runs;
  std::map<std::string, std::pair<Plan, std::string>> plans;  // by hash
  std::vector<std::pair<Measurement, std::string>> measurements;
  for (const CalibrationInput& input : inputs) {
    if (looks_like_bench(input.text)) {
      for (BenchTable& table : import_bench(input.text, input.file, input.hints)) {
        for (const std::string& note : table.notes)
          out.notes.push_back(concat(input.file, ": ", note));
        tables.push_back(std::move(table));
      }
      continue;
    }
    const YamlNode root = parse_yaml(input.text, input.file);
    const auto has = [&](const char* key) {
      return root.kind == YamlNode::Kind::kMap &&
             std::any_of(root.entries.begin(), root.entries.end(),
                         [&](const YamlEntry& e) { return e.key == key; });
    };
    if (root.kind == YamlNode::Kind::kList) {
      for (Run& run : runs_of_groups(input, catalog, device, out.notes))
        runs.push_back(std::move(run));
    } else if (has("hpplan_measurement")) {
      measurements.emplace_back(parse_measurement(input.text, input.file), input.file);
    } else if (has("hpplan")) {
      Plan plan = parse_plan(input.text, input.file);
      if (plan.topology.device != device)
        throw InputError(
            {input.file}, "topology",
            concat("the plan runs on ", plan.topology.device, ", not on ", device));
      if (plan.chosen.measured)
        measurements.emplace_back(*plan.chosen.measured, input.file);
      if (plan.chosen.measured) measurements.back().first.plan_hash = plan.hash;
      const std::string hash = plan.hash;
      plans.emplace(hash, std::pair(std::move(plan), input.file));
    } else {
      throw InputError({input.file}, "",
                       "is none of: nccl-tests or nccom-test output, a plan, a "
                       "measurement, a list of measurement groups");
    }
  }
  for (const auto& [measurement, file] : measurements) {
    if (!measurement.error.empty()) {
      out.notes.push_back(concat(file, ": a failed run, left out: ", measurement.error));
      continue;
    }
    const auto plan = plans.find(measurement.plan_hash);
    if (plan == plans.end())
      throw InputError(
          {file}, "plan_hash",
          concat("give the plan it measured beside it: no file has the hash ",
                 measurement.plan_hash.empty() ? "(none in it)" : measurement.plan_hash));
    runs.push_back(run_of_plan(plan->second.first, measurement, catalog, file));
  }
  check_runs(runs);
  fit_links(tables, out);
  if (out.fabric_fitted)
    for (Run& run : runs)
      if (run.problem.fabric_rates.name == out.fabric.name) {
        run.problem.fabric_rates = out.fabric;
        run.problem.fabric = std::make_shared<const Fabric>(run.problem.topology,
                                                            run.problem.fabric_rates);
        run.paths = paths_of(run.problem, run.mesh, run.method);
      }
  fit_software(runs, out);
  if (!out.device_fitted && !out.fabric_fitted) {
    std::string why = "nothing to calibrate from in the files given";
    for (const std::string& note : out.notes) why += "; " + note;
    throw InputError(why);
  }
  if (out.device_fitted)
    out.device.source = concat("fitted by hpplan calibrate on ", runs.size(),
                               " runs; before: ", out.device.source);
  if (out.fabric_fitted)
    out.fabric.source =
        concat("measured: ", out.curves.size(), " curves by hpplan calibrate",
               out.fabric.source.empty() ? "" : "; others: " + out.fabric.source);
  return out;
}

}  // namespace hpplan
