// Problem and options to a ranked plan.
#include "planner/search.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "planner/layouts.h"
#include "planner/search_notes.h"
#include "planner/spec/catalog.h"
#include "planner/spec/error.h"
#include "planner/spec/rates_yaml.h"

namespace hpplan {
namespace {

void check_options(const Problem& problem, const SearchOptions& options) {
  const int most = problem.topology.devices();
  if (options.devices && (*options.devices < 1 || *options.devices > most))
    throw InputError(
        {"--devices"}, "",
        concat(problem.topology.name, " has ", most, most == 1 ? " device" : " devices",
               ": expected 1 to ", most, ", ", *options.devices,
               " was given; nearest: ", *options.devices < 1 ? 1 : most));
  const auto pin = [&](const char* flag, const std::optional<int>& degree) {
    if (!degree) return;
    if (*degree < 1 || *degree > most)
      throw InputError({flag}, "",
                       concat("expected 1 to ", most, " (the devices of ",
                              problem.topology.name, "), ", *degree, " was given"));
  };
  pin("--tp", options.tp);
  pin("--ring", options.ring);
  pin("--ulysses", options.ulysses);
  pin("--cfg", options.cfg);
  pin("--replica", options.replica);
  std::int64_t pinned = 1;
  for (const auto& degree :
       {options.tp, options.ring, options.ulysses, options.cfg, options.replica})
    pinned *= degree.value_or(1);
  if (pinned > most || (options.devices && *options.devices % pinned != 0))
    throw InputError(
        {"--devices"}, "",
        concat("the degrees asked for multiply to ", pinned, ", which ",
               options.devices ? concat("does not divide --devices ", *options.devices)
                               : concat("is more than the ", most, " devices of ",
                                        problem.topology.name)));
  if (options.runners_up < 0)
    throw InputError({"--runners-up"}, "",
                     concat("expected 0 or more, got ", options.runners_up));
}

std::vector<int> counts_of(const Problem& problem, const SearchOptions& options) {
  if (options.devices) return {*options.devices};
  std::int64_t pinned = 1;
  bool all = true;
  for (const auto& degree : {options.tp, options.ring, options.ulysses}) {
    pinned *= degree.value_or(1);
    all = all && degree.has_value();
  }
  pinned *= options.cfg.value_or(1) * options.replica.value_or(1);
  if (all && problem.workload.branches == 1 &&
      options.objective != Objective::kThroughput)
    return {static_cast<int>(pinned)};
  if (options.objective == Objective::kThroughput) return {problem.topology.devices()};
  std::vector<int> counts = useful_counts(problem.topology, problem.model.heads);
  counts.erase(std::remove_if(counts.begin(), counts.end(),
                              [&](int n) { return n % pinned != 0; }),
               counts.end());
  if (counts.empty()) counts.push_back(static_cast<int>(pinned));
  return counts;
}

// Smaller is better: first by objective, then by what else matters, then by degrees, so
// that equal layouts keep one order.
bool better(Objective objective, const Layout& a, const Layout& b) {
  const auto devices = [](const Layout& l) { return l.degrees.product(); };
  if (objective == Objective::kThroughput) {
    const double x = a.step.value / a.degrees.replica(),
                 y = b.step.value / b.degrees.replica();
    if (x != y) return x < y;
  }
  if (objective == Objective::kDevices && devices(a) != devices(b))
    return devices(a) < devices(b);
  if (a.step != b.step) return a.step < b.step;
  if (devices(a) != devices(b)) return devices(a) < devices(b);
  if (a.memory.peak() != b.memory.peak()) return a.memory.peak() < b.memory.peak();
  if (a.degrees != b.degrees) return a.degrees < b.degrees;
  return a.method < b.method;
}

// What a freer choice would give: the best layout of a changed problem, nullopt when
// nothing is legal.
std::optional<Layout> best_of(const Problem& problem, const SearchOptions& options,
                              const std::vector<int>& counts) {
  Layouts found;
  found.explain = false;
  for (const int n : counts) find_layouts(problem, options, n, found);
  const auto best = std::min_element(
      found.legal.begin(), found.legal.end(),
      [&](const Layout& a, const Layout& b) { return better(options.objective, a, b); });
  if (best == found.legal.end()) return std::nullopt;
  return *best;
}

void note_restrictions(const Problem& problem, const SearchOptions& options,
                       const std::vector<int>& counts, const Layout& chosen,
                       std::vector<std::string>& notes) {
  if (!problem.engine.explicit_mesh) {
    Problem free = problem;
    free.engine.explicit_mesh = true;
    free.engine.rank_grids.clear();
    if (const auto best = best_of(free, options, counts))
      notes.push_back(cost_of_order(problem, chosen, *best));
  }
  if (problem.topology.peer_access == PeerAccess::kUnknown) {
    Problem without = problem;
    without.topology.peer_access = PeerAccess::kNone;
    const auto rates = Catalog().find(DataKind::kFabric, "pcie-nop2p");
    without.fabric_rates = parse_fabric(rates.text, rates.file);
    without.fabric =
        std::make_shared<const Fabric>(without.topology, without.fabric_rates);
    if (const auto best = best_of(without, options, counts))
      notes.push_back(unknown_peers(chosen, *best));
  }
  const bool eager =
      problem.topology.has_fabric_rules && problem.fabric_rules != FabricRules::kCompiled;
  if (eager) {
    Problem compiled = problem;
    compiled.fabric_rules = FabricRules::kCompiled;
    if (const auto best = best_of(compiled, options, counts))
      if (auto note = cost_of_eager(chosen, *best); !note.empty()) notes.push_back(note);
  }
}

}  // namespace

SearchResult make_plan(const Problem& problem, const SearchOptions& options) {
  check_options(problem, options);
  HP_CHECK(problem.fabric != nullptr, problem.topology.name);
  const std::vector<int> counts = counts_of(problem, options);
  Layouts found;
  for (const int n : counts) find_layouts(problem, options, n, found);
  std::sort(
      found.legal.begin(), found.legal.end(),
      [&](const Layout& a, const Layout& b) { return better(options.objective, a, b); });
  SearchResult result;
  result.rejections = found.rejections;
  if (found.legal.empty()) return result;

  const std::size_t shown =
      options.keep_all ? found.legal.size()
                       : std::min(found.legal.size(),
                                  static_cast<std::size_t>(options.runners_up) + 1);
  std::vector<Candidate> candidates;
  candidates.reserve(shown);
  for (std::size_t i = 0; i < shown; ++i)
    candidates.push_back(candidate_of(problem, found.legal[i]));

  Plan plan{.model = problem.model,
            .workload = problem.workload,
            .rows = problem.rows,
            .topology = problem.topology,
            .engine = problem.engine,
            .fabric_rules = problem.fabric_rules,
            .chosen = candidates.front()};
  for (std::size_t i = 1; i < shown && i <= static_cast<std::size_t>(options.runners_up);
       ++i)
    plan.runners_up.push_back(candidates[i]);
  if (options.keep_all) plan.candidates = std::move(candidates);
  plan.rejections = std::move(found.rejections);
  plan.placements_examined = found.placements;
  plan.notes = notes_of(problem, options, found.legal);
  note_restrictions(problem, options, counts, found.legal.front(), plan.notes);
  result.plan = std::move(plan);
  return result;
}

std::vector<const Candidate*> pareto(const Plan& plan) {
  std::vector<const Candidate*> all = {&plan.chosen};
  if (!plan.candidates.empty()) {
    all.clear();
    for (const Candidate& c : plan.candidates) all.push_back(&c);
  } else {
    for (const Candidate& c : plan.runners_up) all.push_back(&c);
  }
  const auto dominates = [](const Candidate& a, const Candidate& b) {
    const Seconds sa = a.predicted.step, sb = b.predicted.step;
    const int da = a.mesh.size(), db = b.mesh.size();
    const Bytes ma = a.memory.peak(), mb = b.memory.peak();
    return sa <= sb && da <= db && ma <= mb && (sa < sb || da < db || ma < mb);
  };
  std::vector<const Candidate*> frontier;
  for (const Candidate* c : all)
    if (std::none_of(all.begin(), all.end(),
                     [&](const Candidate* other) { return dominates(*other, *c); }))
      frontier.push_back(c);
  std::stable_sort(frontier.begin(), frontier.end(),
                   [](const Candidate* a, const Candidate* b) {
                     return a->predicted.step < b->predicted.step;
                   });
  return frontier;
}

}  // namespace hpplan
