#include "planner/layouts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>

#include "planner/memory.h"
#include "planner/rules.h"
#include "planner/spec/error.h"
#include "planner/spec/quantity.h"

namespace hpplan {
namespace {

// A factorization on trial.
struct Trial {
  Layout layout;
  std::optional<StepModel> model;
  std::vector<Layout> others;      // with every_placement: the other legal placements
  std::optional<Finding> refusal;  // of the first placement that fell
  int refused = 0;
  bool found = false;
};

// What an axis costs and whether it is legal, by digit set. One for a space; the ring
// method tells ring entries apart and no others.
class AxisCache {
 public:
  struct Entry {
    AxisPath path;
    std::optional<Finding> refusal;  // without text
  };

  AxisCache(const Problem& problem, const DigitSpace& space)
      : problem_(problem), space_(space) {}

  const Entry& at(Axis axis, RingMethod method, DigitSet set) {
    const bool gathered = axis == Axis::kRing && method == RingMethod::kAllGather;
    auto& known = gathered ? gathered_ : entries_[static_cast<std::size_t>(axis)];
    const auto found = known.find(set);
    if (found != known.end()) return found->second;
    return known.emplace(set, make(axis, method, set, false)).first->second;
  }

  // Why the digit set is refused to the axis, in words.
  Finding refusal(Axis axis, RingMethod method, DigitSet set) const {
    return *make(axis, method, set, true).refusal;
  }

 private:
  Entry make(Axis axis, RingMethod method, DigitSet set, bool with_text) const {
    Entry entry;
    const Fabric& fabric = *problem_.fabric;
    for (const Collective op : collectives_of(axis, method)) {
      if (!fabric.accepts_any_group()) {
        auto groups = space_.groups(set);
        if (op == Collective::kShift) {
          const auto turn = fabric.ring_turn(space_, set);
          for (auto& group : groups) {
            const std::vector<int> by_coordinate = group;
            for (std::size_t i = 0; i < turn.size(); ++i)
              group[i] = by_coordinate[turn[i]];
          }
        }
        entry.refusal = fabric.refuse(op, axis, groups, problem_.fabric_rules,
                                      space_.devices(), with_text);
        if (entry.refusal) return entry;
      }
      entry.path = fabric.path(op, space_, set);
    }
    return entry;
  }

  const Problem& problem_;
  const DigitSpace& space_;
  std::array<std::unordered_map<DigitSet, Entry>, kAxisCount> entries_;
  std::unordered_map<DigitSet, Entry> gathered_;  // of a ring
};

std::vector<Axis> axes_of(const Problem& problem, const SearchOptions& options) {
  std::vector<Axis> axes;
  if (options.objective == Objective::kThroughput || options.replica.value_or(1) > 1)
    axes.push_back(Axis::kReplica);
  if (problem.workload.branches > 1 || options.cfg.value_or(1) > 1)
    axes.push_back(Axis::kCfg);
  for (const Axis axis : {Axis::kRing, Axis::kUlysses, Axis::kTp}) axes.push_back(axis);
  return axes;
}

bool pinned_away(const SearchOptions& o, const Degrees& d) {
  const auto differs = [](const std::optional<int>& pin, int value) {
    return pin && *pin != value;
  };
  return differs(o.tp, d.tp()) || differs(o.ring, d.ring()) ||
         differs(o.ulysses, d.ulysses()) || differs(o.cfg, d.cfg()) ||
         differs(o.replica, d.replica());
}

Finding first_error(const std::vector<Finding>& findings) {
  for (const Finding& f : findings)
    if (f.severity == Severity::kError) return f;
  HP_CHECK(false, "no error among ", findings.size(), " findings");
  return {};
}

std::optional<Finding> over_budget(const SearchOptions& options,
                                   const MemoryEstimate& memory) {
  if (!options.max_memory || memory.peak() <= *options.max_memory) return std::nullopt;
  Finding f;
  f.code = "max-memory";
  f.message = concat("a rank needs ", format_rounded(memory.peak().value / kGiB, 3),
                     " GiB, more than the ", format(*options.max_memory), " asked for");
  f.suggestion = concat("--max-memory ", std::ceil(memory.peak().value / kGiB), "GiB");
  return f;
}

// The rules that degrees alone decide. A trial, or a rejection.
std::optional<Trial> try_degrees(const Problem& problem, const SearchOptions& options,
                                 const Degrees& degrees, RingMethod method,
                                 Layouts& out) {
  const auto reject = [&](Finding finding) {
    out.rejections.push_back({degrees, method, std::move(finding), 1});
    return std::nullopt;
  };
  const auto split = split_of(problem, degrees, method);
  if (!split && !out.explain) return std::nullopt;
  const std::vector<Finding> findings = check_degrees(problem, degrees, method);
  if (!legal(findings)) return reject(first_error(findings));
  HP_CHECK(split.has_value(), degrees.str());
  Trial trial;
  trial.layout.degrees = degrees;
  trial.layout.method = method;
  trial.layout.split = *split;
  trial.layout.memory = estimate_memory(problem, degrees, method, *split);
  // What fits needs no text.
  const Bytes host = problem.topology.host_memory;
  const bool roomy =
      trial.layout.memory.fits() && (host.value == 0 || trial.layout.memory.host <= host);
  if (!roomy && !out.explain) return std::nullopt;
  const auto memory = roomy ? std::vector<Finding>{}
                            : check_memory(problem, degrees, method, trial.layout.memory);
  if (!legal(memory)) return reject(first_error(memory));
  if (auto finding = over_budget(options, trial.layout.memory)) return reject(*finding);
  for (const auto* list : {&findings, &memory})
    for (const Finding& f : *list) trial.layout.warnings.push_back(f);
  trial.model.emplace(problem, degrees, method, *split);
  trial.layout.step = Seconds(std::numeric_limits<double>::infinity());
  return trial;
}

// The rank order an engine builds on its own, as digits; nullopt when it is no placement
// of the space.
std::optional<Placement> placement_of_order(const DigitSpace& space,
                                            const Degrees& degrees,
                                            const std::vector<Axis>& fastest_first) {
  for (const auto& level : space.levels())
    if (level.gray && level.count > 2) return std::nullopt;
  std::vector<Axis> order = fastest_first;
  for (auto axis = kAxes.rbegin(); axis != kAxes.rend(); ++axis)
    if (std::find(order.begin(), order.end(), *axis) == order.end())
      order.push_back(*axis);
  Placement placement;
  std::size_t digit = space.digits().size();
  for (const Axis axis : order) {
    int left = degrees[axis];
    while (left > 1) {
      if (digit == 0 || left % space.digits()[digit - 1].radix != 0) return std::nullopt;
      --digit;
      left /= space.digits()[digit].radix;
      placement[axis] |= DigitSet{1} << digit;
    }
  }
  return placement;
}

void fix_mesh(const Problem& problem, int devices, Trial& trial) {
  Layout& layout = trial.layout;
  Mesh mesh = *engine_mesh(problem, layout.degrees);
  const auto findings = check_mesh(problem, mesh, layout.method);
  for (const Finding& f : findings) {
    if (f.severity == Severity::kWarning) {
      layout.warnings.push_back(f);
    } else if (!trial.refusal) {
      trial.refusal = f;
      trial.refused = 1;
    }
  }
  if (trial.refusal) return;
  std::optional<AxisPaths> paths;
  const auto slices = slices_of(problem.topology, devices);
  for (const Slice& slice : slices) {
    const DigitSpace space(problem.topology, slice);
    const auto placement =
        placement_of_order(space, layout.degrees, problem.engine.rank_order);
    if (!placement || !(mesh_of(problem.topology, space, *placement) == mesh)) continue;
    paths.emplace();
    for (const Axis axis : kAxes)
      for (const Collective op : collectives_of(axis, layout.method))
        (*paths)[static_cast<std::size_t>(axis)] =
            problem.fabric->path(op, space, (*placement)[axis]);
    break;
  }
  layout.paths = paths ? *paths : paths_of(problem, mesh, layout.method);
  layout.step = trial.model->at(layout.paths).step();
  layout.fixed = std::move(mesh);
  trial.found = true;
}

class Placer {
 public:
  Placer(const Problem& problem, std::map<Degrees, std::vector<Trial*>>& trials,
         bool every, Layouts& out)
      : problem_(problem), trials_(trials), every_(every), out_(out) {}

  void place(std::shared_ptr<const DigitSpace> space, const std::vector<Axis>& axes) {
    AxisCache cache(problem_, *space);
    const auto visit = [&](const Placement& placement) {
      ++out_.placements;
      const auto at = trials_.find(degrees_of(*space, placement));
      if (at == trials_.end()) return;
      for (Trial* trial : at->second) judge(*trial, placement, space, cache);
    };
    // Eager alignment tells placements of one class apart.
    const bool symmetric = !problem_.topology.has_fabric_rules ||
                           problem_.fabric_rules == FabricRules::kCompiled;
    if (symmetric)
      for_each_class(axes, digit_classes(problem_.topology, *space), visit);
    else
      for_each_placement(*space, axes, visit);
  }

 private:
  void judge(Trial& trial, const Placement& placement,
             const std::shared_ptr<const DigitSpace>& space, AxisCache& cache) const {
    AxisPaths paths;
    for (const Axis axis : kAxes) {
      if (placement[axis] == 0 || axis == Axis::kReplica) continue;
      const AxisCache::Entry& entry =
          cache.at(axis, trial.layout.method, placement[axis]);
      if (entry.refusal) {
        ++trial.refused;
        if (!trial.refusal)
          trial.refusal = cache.refusal(axis, trial.layout.method, placement[axis]);
        return;
      }
      paths[static_cast<std::size_t>(axis)] = entry.path;
    }
    const Seconds step = trial.model->at(paths).step();
    const bool first = !trial.found;
    trial.found = true;
    const bool best = step < trial.layout.step;
    if (!best && !every_) return;
    if (every_ && !first) trial.others.push_back(trial.layout);
    Layout& layout = every_ && !first && !best ? trial.others.back() : trial.layout;
    layout.step = step;
    layout.paths = paths;
    layout.placement = placement;
    layout.space = space;
  }

  const Problem& problem_;
  std::map<Degrees, std::vector<Trial*>>& trials_;
  const bool every_;
  Layouts& out_;
};

}  // namespace

void find_layouts(const Problem& problem, const SearchOptions& options, int devices,
                  Layouts& out) {
  const std::vector<Axis> axes = axes_of(problem, options);
  std::vector<std::unique_ptr<Trial>> trials;
  for (const Degrees& degrees : factorizations(devices, axes)) {
    if (pinned_away(options, degrees)) continue;
    for (const RingMethod method : {RingMethod::kP2p, RingMethod::kAllGather}) {
      if (degrees.ring() == 1 && method == RingMethod::kAllGather) continue;
      if (degrees.ring() > 1 && options.ring_method && *options.ring_method != method)
        continue;
      if (auto trial = try_degrees(problem, options, degrees, method, out))
        trials.push_back(std::make_unique<Trial>(std::move(*trial)));
    }
  }
  if (problem.engine.explicit_mesh) {
    std::map<Degrees, std::vector<Trial*>> by_degrees;
    for (const auto& trial : trials)
      by_degrees[trial->layout.degrees].push_back(trial.get());
    Placer placer(problem, by_degrees, options.every_placement, out);
    if (!by_degrees.empty())
      for (const Slice& slice : slices_of(problem.topology, devices))
        for (DigitSpace& space : spaces_of(problem.topology, slice))
          placer.place(std::make_shared<const DigitSpace>(std::move(space)), axes);
  } else {
    for (const auto& trial : trials) {
      ++out.placements;
      fix_mesh(problem, devices, *trial);
    }
  }
  for (const auto& trial : trials) {
    if (trial->found) {
      if (options.latency_budget && trial->layout.step > *options.latency_budget) {
        Finding f;
        f.code = "latency-budget";
        f.message =
            concat("a step takes ", format_rounded(trial->layout.step.value, 3),
                   " s, more than the ", format(*options.latency_budget), " asked for");
        f.suggestion = concat("--latency-budget ",
                              format_rounded(trial->layout.step.value * 1.01, 3), "s");
        out.rejections.push_back({trial->layout.degrees, trial->layout.method, f, 1});
      } else {
        out.legal.push_back(std::move(trial->layout));
        for (Layout& other : trial->others)
          if (!options.latency_budget || other.step <= *options.latency_budget)
            out.legal.push_back(std::move(other));
      }
    } else if (trial->refusal) {
      out.rejections.push_back({trial->layout.degrees, trial->layout.method,
                                *trial->refusal, std::max(1, trial->refused)});
    } else {
      Finding f;
      f.code = "no-placement";
      f.message = concat(trial->layout.degrees.str(), ": no split of ", devices,
                         " devices along the machine's levels has these degrees");
      out.rejections.push_back({trial->layout.degrees, trial->layout.method, f, 1});
    }
  }
}

Candidate candidate_of(const Problem& problem, const Layout& layout) {
  std::string text;
  std::optional<Mesh> mesh = layout.fixed;
  if (!mesh) {
    std::vector<int> turn;
    if (layout.degrees.ring() > 1 && layout.method == RingMethod::kP2p)
      turn = problem.fabric->ring_turn(*layout.space, layout.placement[Axis::kRing]);
    mesh = mesh_of(problem.topology, *layout.space, layout.placement, turn);
    text = to_string(problem.topology, *layout.space, layout.placement);
  }
  return {*std::move(mesh),
          layout.method,
          std::move(text),
          layout.split,
          predict(problem, layout.degrees, layout.method, layout.split, layout.paths),
          layout.memory,
          layout.warnings,
          std::nullopt};
}

}  // namespace hpplan
