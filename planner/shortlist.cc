// Which layouts a tuning run measures.
#include <algorithm>

#include "planner/check.h"
#include "planner/cost.h"
#include "planner/enumerate.h"
#include "planner/memory.h"
#include "planner/rules.h"
#include "planner/spec/plan_yaml.h"
#include "planner/tune.h"

namespace hpplan {
namespace {

// A plan of one layout alone, as a runner is given it.
Plan plan_of(const Plan& searched, const Candidate& candidate) {
  Plan plan = searched;
  plan.chosen = candidate;
  plan.runners_up.clear();
  plan.candidates.clear();
  plan.rejections.clear();
  plan.notes.clear();
  plan.hash = plan_hash(plan);
  return plan;
}

bool same_layout(const Candidate& a, const Candidate& b) {
  return a.mesh.degrees() == b.mesh.degrees() && a.mesh.ranks() == b.mesh.ranks() &&
         a.mesh.devices() == b.mesh.devices() &&
         (a.mesh.degrees().ring() == 1 || a.ring_method == b.ring_method);
}

std::optional<Candidate> in_rank_order(const Problem& problem, const Degrees& degrees,
                                       RingMethod method) {
  if (!legal(check_degrees(problem, degrees, method))) return std::nullopt;
  const auto split = split_of(problem, degrees, method);
  if (!split) return std::nullopt;
  const auto own = engine_mesh(problem, degrees);
  const Mesh mesh = own ? *own : Mesh::from_order(degrees, problem.engine.rank_order);
  if (!legal(check_mesh(problem, mesh, method))) return std::nullopt;
  Candidate c{.mesh = mesh, .ring_method = method};
  c.split = *split;
  c.memory = estimate_memory(problem, degrees, method, *split);
  if (!legal(check_memory(problem, degrees, method, c.memory))) return std::nullopt;
  c.predicted =
      predict(problem, degrees, method, *split, paths_of(problem, mesh, method));
  return c;
}

}  // namespace

std::optional<Candidate> default_layout(const Problem& problem, int devices) {
  std::vector<Degrees> choices =
      factorizations(devices, {Axis::kUlysses, Axis::kTp, Axis::kRing});
  const auto after = [&](const Degrees& d) {
    if (d.ulysses() == devices) return 0;
    return d.tp() == devices ? 1 : 2;
  };
  std::stable_sort(
      choices.begin(), choices.end(), [&](const Degrees& a, const Degrees& b) {
        if (after(a) != after(b)) return after(a) < after(b);
        return std::pair(a.ulysses(), a.tp()) > std::pair(b.ulysses(), b.tp());
      });
  const RingMethod method =
      problem.engine.ring_p2p ? RingMethod::kP2p : RingMethod::kAllGather;
  for (const Degrees& d : choices)
    if (auto c = in_rank_order(problem, d, method)) return c;
  return std::nullopt;
}

std::vector<Contender> shortlist(const Problem& problem, const Plan& searched, int top) {
  std::vector<Contender> list;
  const std::vector<Candidate>& ranked = searched.candidates;
  for (std::size_t i = 0;
       i < std::min<std::size_t>(ranked.size(), static_cast<std::size_t>(top)); ++i)
    list.push_back({.plan = plan_of(searched, ranked[i]),
                    .predicted_place = static_cast<int>(i) + 1});
  const auto own = default_layout(problem, searched.chosen.mesh.size());
  if (!own) return list;
  for (Contender& c : list) {
    if (!same_layout(c.plan.chosen, *own)) continue;
    c.baseline = true;
    return list;
  }
  list.push_back({.plan = plan_of(searched, *own), .baseline = true});
  return list;
}

}  // namespace hpplan
