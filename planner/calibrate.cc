#include "planner/calibrate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "planner/collectives.h"
#include "planner/cost.h"
#include "planner/match.h"
#include "planner/rules.h"
#include "planner/spec/engine_yaml.h"
#include "planner/spec/local.h"
#include "planner/spec/microbench.h"
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
constexpr char kProbe[] = "hprun --probe";
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
  // Of one probe, other axes: where their groups lie may differ in more than contention.
  if (a.where.file == b.where.file && a.tool == kProbe) return;
  std::map<double, double> times;
  for (const BenchRow& row : a.rows) times[row.size.value] = row.time.value;
  std::vector<double> ratios;
  for (const BenchRow& row : b.rows)
    if (const auto at = times.find(row.size.value);
        at != times.end() && row.contention == a.rows.front().contention)
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
    curves.erase(
        std::remove_if(curves.begin(), curves.end(),
                       [&, op = key.first, n = key.second](const CollectiveCurve& c) {
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

// The machine that a file names: it has its name and size alone. "hgx-h200-x2" is two of
// one.
Topology machine_of(const std::string& name, int devices, const Catalog& catalog) {
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

// The rates a plan was made with where they were not its machine's own (--device).
void use_device(Topology& machine, const std::string& device, const Catalog& catalog) {
  if (device.empty() || device == machine.device) return;
  machine.device = device;
  const std::vector<std::string> fabrics = catalog.names(DataKind::kFabric);
  if (std::find(fabrics.begin(), fabrics.end(), device) != fabrics.end())
    machine.fabric = device;
}

Run run_of_plan(const Plan& plan, const Measurement& measured, const Catalog& catalog,
                const std::string& from) {
  Topology machine = machine_of(plan.topology.name, plan.topology.devices(), catalog);
  use_device(machine, plan.topology.device, catalog);
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

bool names(const Catalog& catalog, DataKind kind, const std::string& name) {
  const std::vector<std::string> known = catalog.names(kind);
  return std::find(known.begin(), known.end(), name) != known.end();
}

// What was measured on `device`, or on the profile it starts from; the rest is noted.
std::vector<Microbench> probes_of(const YamlNode& root, const std::string& file,
                                  const std::string& device, const std::string& base,
                                  std::vector<std::string>& notes) {
  std::vector<Microbench> own;
  for (Microbench& group : parse_microbench(root)) {
    if (group.device == device || group.device == base) {
      own.push_back(std::move(group));
      continue;
    }
    notes.push_back(
        concat(file, ": ", group.id, " left out: ",
               group.device.empty()
                   ? std::string(
                         "its hardware names no device profile (hardware: {device: ...})")
                   : concat("it ran on ", group.device, ", not on ", device, "; --like ",
                            group.device, " starts from that profile")));
  }
  return own;
}

// Contention of the groups of a series, as the planner will count it.
double contention_of(const CollectiveSeries& series, const Topology& machine,
                     const FabricRates& rates, const Location& where) {
  if (series.groups.empty()) return 1;
  for (const auto& group : series.groups)
    for (const int device : group)
      if (device >= machine.devices())
        throw InputError(
            where, "groups",
            concat("device ", device, " of ", machine.devices(), " in ", machine.name));
  const AxisPath path = Fabric(machine, rates).path(series.op, series.groups);
  const bool own = path.n_reference == series.ranks && path.op_reference == series.op;
  return own ? path.contention : 1;
}

std::vector<BenchRow> rows_of(const CollectiveSeries& series) {
  std::vector<BenchRow> rows;
  for (const BenchPoint& point : series.points)
    rows.push_back({Bytes(point.x), point.time, series.line});
  return rows;
}

// Why there is no curve in a series; empty: there is one. On a busy machine noise can
// hide a bandwidth, and the other series of the probe are still good.
std::string no_curve(const CollectiveSeries& series, const Location& where) {
  try {
    fit_curve(series.op, series.ranks, rows_of(series), where);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

// A table with the contention as the fabric's curves as they stand say it.
BenchTable table_of(const CollectiveSeries& series, const Microbench& group,
                    const std::string& file, const Topology& machine, FabricRates rates) {
  BenchTable table;
  table.tool = kProbe;
  table.where = {file, series.line, 1};
  table.op = series.op;
  table.ranks = series.ranks;
  table.how = concat(group.software.empty() ? group.id : group.software,
                     series.axis.empty() ? "" : ", " + series.axis);
  table.rows = rows_of(series);
  if (series.groups.size() < 2) return table;
  // The capacity of a port may be the curve's own bandwidth, so the curve comes first.
  CollectiveCurve alone =
      fit_curve(series.op, series.ranks, table.rows, table.where).curve;
  auto& curves = rates.curves;
  curves.erase(std::remove_if(curves.begin(), curves.end(),
                              [&](const CollectiveCurve& c) {
                                return c.op == series.op && c.n == series.ranks;
                              }),
               curves.end());
  curves.push_back(alone);
  const double contention = contention_of(series, machine, rates, table.where);
  for (BenchRow& row : table.rows) row.contention = contention;
  table.how += concat(", ", series.groups.size(), " groups at once, the wire ",
                      format_rounded(contention, 3), " times as busy");
  return table;
}

std::string fabric_of(const Catalog& catalog, const std::string& device) {
  for (const Catalog::Entry& entry : catalog.all(DataKind::kTopology)) {
    const Topology topology = parse_topology(entry.text, entry.file);
    if (topology.device == device && !topology.fabric.empty()) return topology.fabric;
  }
  return "";
}

// The first micro-benchmarks whose hardware is a profile's.
std::optional<Microbench> first_probe(const std::vector<CalibrationInput>& inputs) {
  for (const CalibrationInput& input : inputs) {
    if (looks_like_bench(input.text)) continue;
    const YamlNode root = parse_yaml(input.text, input.file);
    if (!is_microbench(root)) continue;
    for (const Microbench& group : parse_microbench(root))
      if (!group.device.empty()) return group;
  }
  return std::nullopt;
}

}  // namespace

Calibration calibrate(const Catalog& catalog, const std::string& device,
                      const std::string& like, const std::string& fabric,
                      const std::vector<CalibrationInput>& inputs) {
  Calibration out;
  const std::optional<Microbench> probe = first_probe(inputs);
  const bool from_probe =
      like.empty() && probe && !names(catalog, DataKind::kDevice, device);
  const std::string base = !like.empty() ? like : from_probe ? probe->device : device;
  const Catalog::Entry own = catalog.find(DataKind::kDevice, base);
  out.device = parse_device(own.text, own.file);
  out.device.name = device;
  const bool machine_known = probe && !probe->topology.empty();
  const std::string link =
      !fabric.empty() ? fabric
      : machine_known ? machine_of(probe->topology, probe->devices, catalog).fabric
                      : fabric_of(catalog, base);
  const bool own_links = fabric.empty() && machine_known && device != base;
  if (names(catalog, DataKind::kFabric, link)) {
    const Catalog::Entry entry = catalog.find(DataKind::kFabric, link);
    out.fabric = parse_fabric(entry.text, entry.file);
  }
  out.fabric.name = own_links || link.empty() ? device : link;

  std::vector<BenchTable> tables;
  std::vector<Run> runs;
  std::vector<Microbench> probes;
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
    if (is_microbench(root)) {
      const std::vector<Microbench> groups =
          probes_of(root, input.file, device, base, out.notes);
      for (const Microbench& group : groups) {
        std::optional<Topology> machine;
        for (const CollectiveSeries& series : group.collectives) {
          if (!machine && !group.topology.empty())
            machine = machine_of(group.topology, group.devices, catalog);
          if (!machine && series.groups.size() > 1)
            throw InputError({input.file, series.line, 1}, "groups",
                             "which devices these are is said by hardware: {topology: "
                             "NAME, devices: N}");
          const Location where{input.file, series.line, 1};
          if (const std::string why = no_curve(series, where); !why.empty()) {
            out.notes.push_back(concat("left out: ", why));
            continue;
          }
          tables.push_back(table_of(series, group, input.file,
                                    machine.value_or(Topology{}), out.fabric));
        }
        probes.push_back(group);
      }
    } else if (root.kind == YamlNode::Kind::kList) {
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
                       "measurement, a list of measurement groups or of "
                       "micro-benchmarks (hprun --probe)");
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
  out.kernels = fit_kernels(out.device, probes, inputs.front().file);
  const bool kernels = !out.kernels.empty();
  fit_software(runs, out);
  if (kernels) {
    out.device_fitted = true;
    out.device.source = concat("measured by hprun --probe, ", probes.front().software,
                               "; before: ", out.device.source);
  }
  if (!out.device_fitted && !out.fabric_fitted) {
    std::string why = "nothing to calibrate from in the files given";
    for (const std::string& note : out.notes) why += "; " + note;
    throw InputError(why);
  }
  if (!runs.empty())
    out.device.source = concat("fitted by hpplan calibrate on ", runs.size(),
                               " runs; before: ", out.device.source);
  if (out.fabric_fitted)
    out.fabric.source =
        concat("measured: ", out.curves.size(), " curves by hpplan calibrate",
               out.fabric.source.empty() ? "" : "; others: " + out.fabric.source);
  return out;
}

}  // namespace hpplan
