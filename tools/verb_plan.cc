// hpplan --model M --topology T: make a plan.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "planner/search.h"
#include "planner/spec/document.h"
#include "planner/spec/plan_document.h"
#include "planner/spec/plan_yaml.h"
#include "tools/inputs.h"
#include "tools/report.h"
#include "tools/search_flags.h"
#include "tools/verbs.h"

namespace hpplan::tools {
namespace {

struct PlanFlags {
  Inputs inputs;
  SearchFlags search;
  std::string format, out;
  std::vector<std::string> hosts;
  int top = 5;
  bool explain = false, frontier = false;
  int* code = nullptr;
};

std::unique_ptr<PlanFlags>& flags() {
  static auto held = std::make_unique<PlanFlags>();
  return held;
}

// Nothing is legal: the rejections are the answer.
int refuse(const PlanFlags& f, const SearchResult& result, const std::string& format) {
  if (format == "table") {
    put(f.out, "No legal layout.\n" + rejection_table(result.rejections, f.explain, {color(STDOUT_FILENO)}));
  } else {
    Document d;
    d["plan"] = nullptr;
    d["candidates"] = Document::array();
    d["rejections"] = Document::array();
    for (const Rejection& r : result.rejections)
      d["rejections"].push_back({{"tp", r.degrees.tp()},
                                 {"ring", r.degrees.ring()},
                                 {"ulysses", r.degrees.ulysses()},
                                 {"cfg", r.degrees.cfg()},
                                 {"code", r.finding.code},
                                 {"message", r.finding.message},
                                 {"suggestion", r.finding.suggestion}});
    put("", format == "json" ? to_json(d) : to_yaml(d));
  }
  std::fprintf(stderr, "hpplan: no legal layout; %s\n",
               f.explain ? "the rules above say why" : "--explain says why for each");
  return 1;
}

// The host of every rank: nodes in the machine's order, hosts in the order given.
std::vector<std::string> hosts_of(const std::vector<std::string>& hosts, const Topology& topology,
                                  const Mesh& mesh) {
  if (hosts.empty()) return {};
  const int per_node =
      topology.devices_per_os_node > 0 ? topology.devices_per_os_node : topology.devices();
  const int nodes = topology.devices() / per_node;
  if (static_cast<int>(hosts.size()) != nodes)
    throw InputError({"--hosts"}, "", concat(topology.name, " has ", nodes, nodes == 1 ? " node, " : " nodes, ",
                                             hosts.size(), hosts.size() == 1 ? " host was given" : " hosts were given"));
  std::vector<std::string> of_rank;
  for (const int device : mesh.devices()) {
    const auto& ids = topology.device_ids;
    const auto place = ids.empty() ? device : std::find(ids.begin(), ids.end(), device) - ids.begin();
    of_rank.push_back(hosts[static_cast<std::size_t>(place) / static_cast<std::size_t>(per_node)]);
  }
  return of_rank;
}

int make(const PlanFlags& f) {
  const std::string format = output_format(f.format);
  SearchOptions options = search_options(f.search, f.inputs);
  options.runners_up = f.top;
  options.keep_all = f.explain || f.frontier;
  Loaded loaded = load(f.inputs);
  SearchResult result = make_plan(loaded.problem, options);
  if (!result.plan) return refuse(f, result, format);

  Plan& plan = *result.plan;
  plan.model_hash = loaded.model_hash;
  plan.workload_hash = loaded.workload_hash;
  plan.topology_hash = loaded.topology_hash;
  plan.hosts = hosts_of(f.hosts, plan.topology, plan.chosen.mesh);
  plan.notes.insert(plan.notes.end(), loaded.notes.begin(), loaded.notes.end());
  const auto frontier = f.frontier ? pareto(plan) : std::vector<const Candidate*>{};

  std::string text;
  if (format == "json") {
    Document d = plan_document(plan, f.explain);
    if (f.frontier) {
      d["pareto"] = Document::array();
      for (const Candidate* c : frontier)
        d["pareto"].push_back({{"axes", axes_document(*c)},
                               {"devices", c->mesh.size()},
                               {"step_s", c->predicted.step.value},
                               {"peak_bytes", static_cast<std::int64_t>(c->memory.peak().value)}});
    }
    text = to_json(d);
  } else if (format == "yaml") {
    text = plan_to_yaml(plan, f.explain);
  } else {
    text = plan_table(plan, f.explain, {color(STDOUT_FILENO)});
    if (f.frontier) text += "\n" + pareto_table(plan, frontier, {color(STDOUT_FILENO)});
  }
  if (!f.out.empty()) {
    // The file is the plan, whatever the table on the terminal shows.
    write_file(f.out, format == "json" ? text : plan_to_yaml(plan, f.explain));
    std::fputs(plan_table(plan, f.explain, {color(STDERR_FILENO)}).c_str(), stderr);
    std::fprintf(stderr, "plan written to %s\n", f.out.c_str());
    return 0;
  }
  put("", text);
  // Piped YAML still tells a person at the terminal what was chosen.
  if (format != "table" && isatty(STDERR_FILENO))
    std::fputs(plan_table(plan, false, {color(STDERR_FILENO)}).c_str(), stderr);
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, int& code) {
  PlanFlags& f = *flags();
  f.code = &code;
  add_input_flags(app, f.inputs);
  add_search_flags(app, f.search, f.inputs);
  app.add_option("--hosts", f.hosts, "names of the nodes: the plan then holds every rank to its host")
      ->delimiter(',')
      ->group("What is planned");
  const std::string output = "Output";
  app.add_flag("--explain", f.explain, "every candidate and every rejection with its rule")->group(output);
  app.add_flag("--pareto", f.frontier, "the frontier of latency, devices and memory")->group(output);
  app.add_option("--top", f.top, "runners-up to keep")->check(CLI::Range(0, 1000))->capture_default_str()->group(output);
  app.add_option("--format", f.format, "table, yaml or json")
      ->check(CLI::IsMember({"table", "yaml", "json"}))
      ->group(output);
  app.add_option("-o,--output", f.out, "write the plan here")->group(output);
}

void run_plan(CLI::App& app) {
  if (!app.get_subcommands().empty()) return;
  PlanFlags& f = *flags();
  if (f.inputs.model.empty() && f.inputs.topology.empty()) {
    std::fputs(app.help().c_str(), stdout);
    return;
  }
  *f.code = make(f);
}

}  // namespace hpplan::tools
