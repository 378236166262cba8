// hpplan check: judge a layout somebody wrote down.
#include <unistd.h>

#include <memory>

#include "planner/check.h"
#include "planner/spec/document.h"
#include "planner/spec/plan_document.h"
#include "planner/spec/plan_yaml.h"
#include "tools/inputs.h"
#include "tools/report.h"
#include "tools/verbs.h"

namespace hpplan::tools {
namespace {

struct CheckFlags {
  Inputs inputs;
  std::string plan, order, ranks, ring_method, format;
  int tp = 1, ring = 1, ulysses = 1, cfg = 1, replica = 1;
};

int check(CheckFlags& f) {
  CheckRequest request;
  if (!f.plan.empty()) {
    const Plan plan = read_plan(f.plan);
    // What the plan was made for, unless a flag says otherwise.
    if (f.inputs.model.empty()) f.inputs.model = plan.model.name;
    if (f.inputs.topology.empty()) f.inputs.topology = plan.topology.name;
    if (f.inputs.fabric_rules.empty() && plan.fabric_rules != FabricRules::kNotApplicable)
      f.inputs.fabric_rules = std::string(to_string(plan.fabric_rules));
    request.mesh = plan.chosen.mesh;
    request.degrees = plan.chosen.mesh.degrees();
    request.ring_method = plan.chosen.ring_method;
  } else {
    for (const int degree : {f.tp, f.ring, f.ulysses, f.cfg, f.replica})
      if (degree < 1) throw InputError(concat("a degree must be at least 1, got ", degree));
    request.degrees = Degrees::make(f.tp, f.ring, f.ulysses, f.cfg, f.replica);
  }
  if (!f.order.empty() && !f.ranks.empty()) throw InputError("--order and --ranks both say where ranks are: give one");
  if (!f.order.empty()) request.order = parse_order(f.order);
  if (!f.ranks.empty()) request.ranks = read_ranks(f.ranks);
  if (!f.ring_method.empty()) request.ring_method = f.ring_method == "p2p" ? RingMethod::kP2p : RingMethod::kAllGather;
  request.devices = f.inputs.devices;

  const Loaded loaded = load(f.inputs);
  const CheckResult result = check_layout(loaded.problem, request);
  const std::string format = f.format.empty() ? "table" : f.format;
  if (format == "table") {
    put("", check_text(result, {color(STDOUT_FILENO)}));
  } else {
    Document d;
    d["legal"] = result.legal;
    d["findings"] = Document::array();
    for (const Finding& finding : result.findings) d["findings"].push_back(finding_document(finding));
    if (!result.mesh_from.empty()) d["mesh_from"] = result.mesh_from;
    if (!result.instead.empty()) d["instead"] = result.instead;
    if (result.mesh) d["mesh"] = mesh_document(*result.mesh);
    if (result.memory) d["memory"] = memory_document(*result.memory);
    put("", format == "json" ? to_json(d) : to_yaml(d));
  }
  return result.legal ? 0 : 1;
}

}  // namespace

void add_check(CLI::App& app, int& code) {
  CLI::App* sub = app.add_subcommand("check", "judge a hand-written layout by the rules the search uses");
  sub->footer(
      "\nExamples:\n"
      "  hpplan check --model minimax-h3 --topology trn2.48xl --engine diffusers --tp 8 --ulysses 4 --order "
      "ulysses,tp,ring\n"
      "  hpplan check --model minimax-h3 --topology trn2.48xl --tp 8 --ulysses 8 --ranks mesh.yaml\n"
      "  hpplan check plan.yaml --engine sglang\n"
      "\nExit code: 0 legal, 1 illegal, 2 wrong input.\n");
  auto f = std::make_shared<CheckFlags>();
  sub->add_option("plan", f->plan, "a plan file whose mesh is judged");
  add_input_flags(*sub, f->inputs);
  const std::string layout = "The layout";
  sub->add_option("--tp", f->tp)->group(layout);
  sub->add_option("--ring", f->ring)->group(layout);
  sub->add_option("--ulysses", f->ulysses)->group(layout);
  sub->add_option("--cfg", f->cfg)->group(layout);
  sub->add_option("--replica", f->replica)->group(layout);
  sub->add_option("--devices", f->inputs.devices, "ranks that will be started")->group(layout);
  sub->add_option("--ring-method", f->ring_method, "p2p or allgather (default: what the engine has)")
      ->check(CLI::IsMember({"p2p", "allgather"}))
      ->group(layout);
  sub->add_option("--order", f->order, "axes, fastest-varying first: tp,ulysses,ring (default: the engine's)")
      ->group(layout);
  sub->add_option("--ranks", f->ranks, "file with an explicit rank grid")->group(layout);
  sub->add_option("--format", f->format, "table, yaml or json")->check(CLI::IsMember({"table", "yaml", "json"}));
  sub->callback([f, &code] { code = check(*f); });
}

}  // namespace hpplan::tools
