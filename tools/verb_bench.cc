// hpplan bench, hpplan compare: plans as a regression benchmark.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>

#include "planner/compare.h"
#include "planner/launch_measurer.h"
#include "planner/spec/plan_yaml.h"
#include "planner/spec/quantity.h"
#include "planner/spec/yaml_reader.h"
#include "tools/text.h"
#include "tools/verbs.h"

namespace hpplan::tools {
namespace {

volatile std::sig_atomic_t interrupted = 0;
void on_interrupt(int) { interrupted = 1; }

struct BenchFlags {
  std::vector<std::string> plans;
  std::string out, runner, launcher, timeout = "120s";
  int repetitions = 9, warmup = 2, iterations = 5;
};

std::string name_of(const Plan& plan, const std::string& placement) {
  const Workload& w = plan.workload;
  std::string name = concat(plan.model.name, "/", plan.rows.total(), "rows/",
                            plan.topology.name, "/", plan.engine.name, "/",
                            to_string(w.dtype), "/", plan.chosen.mesh.degrees().str());
  if (plan.chosen.mesh.degrees().ring() > 1)
    name += concat(" ", to_string(plan.chosen.ring_method));
  return placement.empty() ? name : concat(name, " ", placement);
}

int bench(const BenchFlags& f) {
  MeasureRequest request;
  request.warmup = f.warmup;
  request.iterations = f.iterations;
  request.timeout = parse_seconds(f.timeout, {"--timeout"});
  std::vector<PlanRuns> plans;
  std::vector<std::string> names;
  for (const std::string& file : f.plans) {
    PlanRuns p{.file = file, .plan = read_plan(file)};
    p.name = name_of(p.plan, p.plan.chosen.placement);
    if (std::find(names.begin(), names.end(), p.name) != names.end())
      throw InputError({file}, "",
                       concat("is the same benchmark as an earlier plan: ", p.name));
    names.push_back(p.name);
    plans.push_back(std::move(p));
  }
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  LaunchMeasurer measurer(find_runner(f.runner), interrupted, find_launcher(f.launcher));
  // A B B A, each in a start of its own: what two starts differ by is part of the noise.
  for (int r = 0; r < f.repetitions && interrupted == 0; ++r)
    for (std::size_t i = 0; i < plans.size() && interrupted == 0; ++i) {
      PlanRuns& p = plans[r % 2 == 0 ? i : plans.size() - 1 - i];
      // One that failed is not tried again: it has failed.
      if (!p.runs.empty() && !p.runs.back().error.empty()) continue;
      measurer.measure_files(
          {p.file}, {p.plan.hash}, p.plan.chosen.mesh.size(), request,
          [&](std::size_t, const Measurement& m) {
            p.runs.push_back(m);
            std::fprintf(
                stderr, "[%d/%d] %s: %s\n", r + 1, f.repetitions, p.name.c_str(),
                m.error.empty() ? time_text(m.step_median).c_str() : m.error.c_str());
          });
    }
  if (interrupted != 0) {
    std::fputs("hpplan: interrupted, nothing is written\n", stderr);
    return 130;
  }
  put(f.out, benchmark_json(plans, measurer.version()));
  for (const PlanRuns& p : plans)
    if (!p.runs.back().error.empty()) return 1;
  return 0;
}

struct CompareFlags {
  std::string base, now, format = "table";
  CompareOptions options;
};

int compare_files(const CompareFlags& f) {
  const auto read = [](const std::string& file) {
    return parse_benchmark_json(read_text_file(file), file);
  };
  const std::vector<Compared> compared = compare(read(f.base), read(f.now), f.options);
  put("", f.format == "json" ? compare_json(compared, f.options)
                             : compare_text(compared, f.options));
  return regressed(compared) ? 1 : 0;
}

}  // namespace

void add_bench(CLI::App& app, int& code) {
  CLI::App* sub = app.add_subcommand(
      "bench", "time plans, as JSON that Google Benchmark's tools read");
  sub->footer(
      "\nExamples:\n"
      "  hpplan bench plan.yaml other.yaml -o base.json\n"
      "  hpplan bench plan.yaml other.yaml -o now.json && hpplan compare base.json "
      "now.json\n"
      "\nExit code: 0 all ran, 1 one failed (the file says why), 2 wrong input.\n");
  auto f = std::make_shared<BenchFlags>();
  sub->add_option("PLAN", f->plans, "plans to run")->required();
  sub->add_option("--repetitions", f->repetitions,
                  "starts of each plan; a U test wants five or more")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  sub->add_option("--warmup", f->warmup, "uncounted steps of a start")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  sub->add_option("--iterations", f->iterations, "counted steps of a start")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  sub->add_option("--timeout", f->timeout, "a start without a result by then has failed")
      ->capture_default_str();
  sub->add_option("--runner", f->runner,
                  "what runs a plan (default: hprun beside hpplan or on PATH)");
  sub->add_option("--launcher", f->launcher,
                  "what starts the ranks, {ranks} of them, such as 'srun --ntasks "
                  "{ranks}' (default: local ranks)");
  sub->add_option("-o,--output", f->out, "write the results here");
  sub->callback([f, &code] { code = bench(*f); });
}

void add_compare(CLI::App& app, int& code) {
  CLI::App* sub = app.add_subcommand(
      "compare", "two results of hpplan bench: is the newer one slower?");
  sub->footer(
      "\nTakes any two files of Google Benchmark's JSON. A verdict needs a change of the "
      "median above --threshold\n"
      "and a Mann-Whitney U test at --alpha.\n"
      "\nExit code: 0 no worse, 1 something is slower, failed or missing, 2 wrong "
      "input.\n");
  auto f = std::make_shared<CompareFlags>();
  sub->add_option("BASE", f->base)->required();
  sub->add_option("NOW", f->now)->required();
  sub->add_option("--threshold", f->options.threshold,
                  "change of the median that matters")
      ->check(CLI::Range(0.0, 10.0))
      ->capture_default_str();
  sub->add_option("--alpha", f->options.alpha, "chance of a false alarm")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  sub->add_option("--format", f->format, "table or json")
      ->check(CLI::IsMember({"table", "json"}));
  sub->callback([f, &code] { code = compare_files(*f); });
}

}  // namespace hpplan::tools
