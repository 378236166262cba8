// hpplan tune: measure the best few for real.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>

#include "planner/launch_measurer.h"
#include "planner/spec/plan_yaml.h"
#include "planner/spec/quantity.h"
#include "planner/tune.h"
#include "tools/search_flags.h"
#include "tools/tune_files.h"
#include "tools/tune_report.h"
#include "tools/verbs.h"

namespace hpplan::tools {
namespace {

volatile std::sig_atomic_t interrupted = 0;
void on_interrupt(int) { interrupted = 1; }

struct TuneFlags {
  Inputs inputs;
  SearchFlags search;
  std::string budget = "10m", timeout = "2m", journal, runner, launcher, emit, collect,
              format, out;
  int top = 5, rounds = 8, warmup = 2, iterations = 5;
};

// Minutes and hours are what people give a tuning run.
Seconds duration(const std::string& flag, const std::string& text) {
  const char unit = text.empty() ? ' ' : text.back();
  if ((unit == 'm' || unit == 'h') && text.size() > 1)
    return Seconds(parse_number(text.substr(0, text.size() - 1), {flag}) *
                   (unit == 'm' ? 60 : 3600));
  return parse_seconds(text, {flag});
}

// What was searched, with every candidate; nullopt when nothing is legal (it has been
// said).
struct Searched {
  Loaded loaded;
  std::optional<Plan> plan;
};

Searched search(const TuneFlags& f) {
  SearchOptions options = search_options(f.search, f.inputs);
  options.keep_all = true;
  Searched s{load(f.inputs), std::nullopt};
  SearchResult result = make_plan(s.loaded.problem, options);
  if (!result.plan) {
    std::fputs(
        "hpplan: no legal layout, nothing to tune; hpplan with the same flags says why\n",
        stderr);
    return s;
  }
  Plan& plan = *result.plan;
  plan.model_hash = s.loaded.model_hash;
  plan.workload_hash = s.loaded.workload_hash;
  plan.topology_hash = s.loaded.topology_hash;
  plan.notes.insert(plan.notes.end(), s.loaded.notes.begin(), s.loaded.notes.end());
  s.plan = std::move(plan);
  return s;
}

int deliver(const TuneFlags& f, const Plan& searched, const TuneResult& result) {
  const double confidence = TuneOptions{}.confidence;
  std::optional<Plan> plan = tuned_plan(searched, result);
  if (!plan) {
    std::fputs(tune_table(result, confidence, {color(STDERR_FILENO)}).c_str(), stderr);
    std::fprintf(stderr, "hpplan: nothing was measured (%s)\n", result.stopped.c_str());
    return result.stopped == "interrupted" ? 130 : 1;
  }
  for (const std::string& line : tune_notes(result, confidence))
    plan->notes.push_back(line);
  const std::string format = output_format(f.format);
  const std::string text = format == "json"   ? plan_to_json(*plan)
                           : format == "yaml" ? plan_to_yaml(*plan)
                                              : "";
  if (!f.out.empty()) write_file(f.out, format == "json" ? text : plan_to_yaml(*plan));
  const std::string table =
      tune_table(result, confidence,
                 {color(f.out.empty() && text.empty() ? STDOUT_FILENO : STDERR_FILENO)});
  if (!f.out.empty() || !text.empty()) std::fputs(table.c_str(), stderr);
  if (f.out.empty()) put("", text.empty() ? table : text);
  if (!f.out.empty()) std::fprintf(stderr, "plan written to %s\n", f.out.c_str());
  return result.stopped == "interrupted" ? 130 : 0;
}

int measure(const TuneFlags& f) {
  const std::vector<std::string> runner = find_runner(f.runner),
                                 launcher = find_launcher(f.launcher);
  TuneOptions options;
  options.budget = duration("--budget", f.budget);
  options.rounds = f.rounds;
  options.run.warmup = f.warmup;
  options.run.iterations = f.iterations;
  options.run.timeout = duration("--timeout", f.timeout);
  const Searched s = search(f);
  if (!s.plan) return 1;
  if (f.runner.empty() && s.plan->engine.name != "hprun")
    throw InputError(
        {"--engine"}, "",
        concat("hprun does not run ", s.plan->engine.name,
               ": name what does with --runner, or measure elsewhere with --emit "
               "and --collect"));

  std::unique_ptr<Journal> journal;
  const std::string path = !f.journal.empty() ? f.journal
                           : f.out.empty()    ? ""
                                              : f.out + ".journal";
  if (!path.empty()) journal = std::make_unique<Journal>(path);
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  LaunchMeasurer measurer(runner, interrupted, launcher);

  std::vector<Contender> contenders = shortlist(s.loaded.problem, *s.plan, f.top);
  if (journal) {
    int known = 0;
    std::map<std::string, int> expired;
    for (const Contender& c : contenders) {
      const MeasurementKey key = measurement_key(c.plan, measurer.version());
      known += static_cast<int>(journal->find(key).size());
      for (const auto& [what, count] : journal->expired(key)) expired[what] += count;
    }
    if (known > 0) std::fprintf(stderr, "%d runs taken from %s\n", known, path.c_str());
    for (const auto& [what, count] : expired)
      std::fprintf(stderr, "%d runs of %s are not used: another %s\n", count,
                   path.c_str(), what.c_str());
  }
  const TuneResult result = tune(
      std::move(contenders), measurer, journal.get(), options,
      [](const TuneProgress& p) {
        std::fputs((progress_line(p) + "\n").c_str(), stderr);
      },
      [] { return interrupted != 0; });
  if (result.stopped == "interrupted" && journal)
    std::fprintf(stderr, "interrupted; the same command goes on from %s\n", path.c_str());
  return deliver(f, *s.plan, result);
}

int emit(const TuneFlags& f, const CLI::App& sub) {
  const Searched s = search(f);
  if (!s.plan) return 1;
  std::vector<std::string> words;
  for (const CLI::Option* option : sub.get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 || name == "--emit") continue;
    words.push_back(name);
    if (option->get_items_expected_max() == 0) continue;
    for (const std::string& value : option->results()) words.push_back(value);
  }
  std::fputs(write_tuning_folder(f.emit, shortlist(s.loaded.problem, *s.plan, f.top),
                                 words, f.warmup, f.iterations)
                 .c_str(),
             stderr);
  return 0;
}

int collect(const TuneFlags& f) {
  const Searched s = search(f);
  if (!s.plan) return 1;
  TuneResult result;
  result.stopped = "collected";
  result.ranked =
      read_tuning_folder(f.collect, shortlist(s.loaded.problem, *s.plan, f.top));
  return deliver(f, *s.plan, result);
}

void add_flags(CLI::App& sub, TuneFlags& f) {
  add_input_flags(sub, f.inputs);
  add_search_flags(sub, f.search, f.inputs);
  const std::string runs = "The runs";
  sub.add_option("--top", f.top,
                 "best predicted layouts to measure, beside the default one")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str()
      ->group(runs);
  sub.add_option("--budget", f.budget, "time for all of it, such as 20s, 10m, 1h")
      ->capture_default_str()
      ->group(runs);
  sub.add_option("--rounds", f.rounds, "most runs of one layout")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str()
      ->group(runs);
  sub.add_option("--warmup", f.warmup, "uncounted steps of a run")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str()
      ->group(runs);
  sub.add_option("--iterations", f.iterations, "counted steps of a run")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str()
      ->group(runs);
  sub.add_option("--timeout", f.timeout, "a run without a result by then has failed")
      ->capture_default_str()
      ->group(runs);
  sub.add_option("--runner", f.runner,
                 "what runs a plan, with hprun's arguments (default: hprun beside hpplan "
                 "or on PATH)")
      ->group(runs);
  sub.add_option(
         "--launcher", f.launcher,
         "what starts the ranks, {ranks} of them, in front of the runner, such as "
         "'srun --ntasks {ranks}'; TMPDIR must then be a folder that all hosts "
         "see (default: local ranks)")
      ->group(runs);
  sub.add_option(
         "--journal", f.journal,
         "where finished runs are kept, to resume from (default: PLAN.journal with -o)")
      ->group(runs);
  const std::string elsewhere = "Measuring elsewhere";
  sub.add_option("--emit", f.emit, "write the plans and a script that measures them here")
      ->group(elsewhere);
  sub.add_option("--collect", f.collect, "read the measurements of such a folder back")
      ->group(elsewhere);
  const std::string output = "Output";
  sub.add_option("--format", f.format, "table, yaml or json")
      ->check(CLI::IsMember({"table", "yaml", "json"}))
      ->group(output);
  sub.add_option("-o,--output", f.out, "write the plan with its measurements here")
      ->group(output);
}

// The flags a folder was made with, under those given now.
TuneFlags with_folder_flags(const TuneFlags& given) {
  TuneFlags f;
  CLI::App app;
  add_flags(app, f);
  std::vector<std::string> words = read_tuning_words(given.collect);
  std::reverse(words.begin(), words.end());
  try {
    app.parse(words);
  } catch (const CLI::ParseError& e) {
    throw InputError({given.collect}, "",
                     concat("was made by another version: ", e.what()));
  }
  f.collect = given.collect;
  if (!given.format.empty()) f.format = given.format;
  f.out = given.out;
  return f;
}

}  // namespace

void add_tune(CLI::App& app, int& code) {
  CLI::App* sub = app.add_subcommand(
      "tune", "measure the best few layouts, and plan by what they take");
  sub->footer(
      "\nRuns are interleaved (A B C C B A ...), stop early when the intervals of the "
      "medians separate, and are kept\n"
      "in a journal: the same command goes on where an interrupted one stopped. A layout "
      "that crashes or hangs is\n"
      "a failed measurement, and the others go on.\n"
      "\nExamples:\n"
      "  hpplan tune --model minimax-h3-tiny --topology local --devices 4 --budget 60s "
      "-o plan.yaml\n"
      "  hpplan tune --model minimax-h3 --topology hgx-h200 --top 3 -o plan.yaml\n"
      "  TMPDIR=/shared hpplan tune --model minimax-h3 --topology hgx-h200 --nodes 2 "
      "--devices 16 --launcher 'srun --ntasks {ranks}'\n"
      "  hpplan tune --model minimax-h3 --topology hgx-h200 --nodes 2 --emit runs   # "
      "then, on the cluster:\n"
      "  LAUNCH='srun --ntasks $RANKS' runs/run.sh\n"
      "  hpplan tune --collect runs -o plan.yaml\n"
      "\nExit code: 0 measured, 1 nothing legal or every run failed, 2 wrong input, 130 "
      "interrupted.\n");
  auto f = std::make_shared<TuneFlags>();
  add_flags(*sub, *f);
  sub->callback([f, sub, &code] {
    if (!f->emit.empty() && !f->collect.empty())
      throw InputError("--emit writes what --collect reads: give one of them");
    if (!f->emit.empty()) {
      code = emit(*f, *sub);
    } else if (!f->collect.empty()) {
      code = collect(f->inputs.model.empty() ? with_folder_flags(*f) : *f);
    } else {
      code = measure(*f);
    }
  });
}

}  // namespace hpplan::tools
