// How long planning takes on one core. Run: build/bin/planner_bench
//   search/...        the whole make_plan
//   placements/4096   every one of the 3^12 placements of 4,096 devices costed, paths by
//   digit set digit_sets        the same placements with and without the tables by digit
//   set; speedup = their ratio
#include <benchmark/benchmark.h>

#include <array>
#include <chrono>
#include <map>
#include <unordered_map>

#include "planner/cost.h"
#include "planner/enumerate.h"
#include "planner/rules.h"
#include "planner/search.h"
#include "tests/planner/machines.h"
#include "tests/planner/problems.h"

namespace hpplan {
namespace {

const std::vector<Axis> kThreeAxes = {Axis::kRing, Axis::kUlysses, Axis::kTp};

// 2^12 devices over four levels of 8.
Topology four_levels() {
  Topology t = testing::topology_named("hgx-h200");
  t.name = "four-levels";
  t.levels = {testing::level("row", 8, LinkKind::kNetwork, 25600),
              testing::level("rack", 8, LinkKind::kNetwork, 3200),
              testing::level("node", 8, LinkKind::kNetwork, 400),
              testing::level("gpu", 8, LinkKind::kSwitch, 450)};
  t.network.reset();
  return t;
}

void search(benchmark::State& state, const Problem& problem, std::optional<int> devices) {
  SearchOptions options;
  options.devices = devices;
  std::int64_t placements = 0;
  for (auto _ : state) {
    const SearchResult result = make_plan(problem, options);
    placements = result.plan ? result.plan->placements_examined : 0;
    benchmark::DoNotOptimize(placements);
  }
  state.counters["classes"] = static_cast<double>(placements);
}

void BM_Torus64(benchmark::State& state) {
  search(
      state,
      testing::problem_named("minimax-h3", "trn2.48xl", "hprun", FabricRules::kCompiled),
      64);
}
BENCHMARK(BM_Torus64)->Name("search/trn2.48xl/64")->Unit(benchmark::kMillisecond);

void BM_TorusEager64(benchmark::State& state) {
  search(state,
         testing::problem_named("minimax-h3", "trn2.48xl", "hprun", FabricRules::kEager),
         64);
}
BENCHMARK(BM_TorusEager64)
    ->Name("search/trn2.48xl-eager/64")
    ->Unit(benchmark::kMillisecond);

void BM_TorusEveryCount(benchmark::State& state) {
  search(
      state,
      testing::problem_named("minimax-h3", "trn2.48xl", "hprun", FabricRules::kCompiled),
      std::nullopt);
}
BENCHMARK(BM_TorusEveryCount)
    ->Name("search/trn2.48xl/every_count")
    ->Unit(benchmark::kMillisecond);

void BM_Nodes64(benchmark::State& state) {
  search(state,
         testing::problem_on(with_nodes(testing::topology_named("hgx-h200"), 8),
                             "minimax-h3", "hprun"),
         64);
}
BENCHMARK(BM_Nodes64)->Name("search/hgx-h200-x8/64")->Unit(benchmark::kMillisecond);

void BM_FourLevels4096(benchmark::State& state) {
  search(state, testing::problem_on(four_levels(), "minimax-h3", "hprun"), 4096);
}
BENCHMARK(BM_FourLevels4096)
    ->Name("search/four_levels/4096")
    ->Unit(benchmark::kMillisecond);

// Costs of every placement; tables: paths looked up by digit set, else asked anew.
double cost_all(const Problem& problem, const DigitSpace& space, std::int64_t& placements,
                bool tables) {
  std::map<Degrees, StepModel> models;
  std::array<std::unordered_map<DigitSet, AxisPath>, kAxisCount> known;
  const auto path = [&](Axis axis, DigitSet set) {
    const Collective op = collectives_of(axis, RingMethod::kP2p).front();
    if (!tables) return problem.fabric->path(op, space, set);
    auto& of = known[static_cast<std::size_t>(axis)];
    const auto found = of.find(set);
    if (found != of.end()) return found->second;
    return of.emplace(set, problem.fabric->path(op, space, set)).first->second;
  };
  Split split;
  split.local_heads = split.padded_heads = split.busiest_heads = 1;
  split.rows = split.padded_rows = split.busiest_rows = problem.rows.total();
  double best = 1e30;
  placements = 0;
  for_each_placement(space, kThreeAxes, [&](const Placement& placement) {
    const Degrees degrees = degrees_of(space, placement);
    auto model = models.find(degrees);
    if (model == models.end())
      model =
          models.emplace(degrees, StepModel(problem, degrees, RingMethod::kP2p, split))
              .first;
    AxisPaths paths;
    for (const Axis axis : kThreeAxes)
      if (placement[axis] != 0)
        paths[static_cast<std::size_t>(axis)] = path(axis, placement[axis]);
    best = std::min(best, model->second.at(paths).step().value);
    ++placements;
  });
  return best;
}

void BM_EveryPlacement(benchmark::State& state) {
  const Problem problem = testing::problem_on(four_levels(), "minimax-h3", "hprun");
  const DigitSpace space(problem.topology, whole(problem.topology));
  std::int64_t placements = 0;
  for (auto _ : state)
    benchmark::DoNotOptimize(cost_all(problem, space, placements, true));
  state.counters["placements"] = static_cast<double>(placements);
}
BENCHMARK(BM_EveryPlacement)->Name("placements/4096")->Unit(benchmark::kMillisecond);

void BM_DigitSets(benchmark::State& state) {
  const Problem problem =
      testing::problem_named("minimax-h3", "trn2.48xl", "hprun", FabricRules::kCompiled);
  const DigitSpace space(problem.topology, whole(problem.topology));
  using Clock = std::chrono::steady_clock;
  double with = 0, without = 0;
  std::int64_t placements = 0;
  for (auto _ : state) {
    const auto start = Clock::now();
    benchmark::DoNotOptimize(cost_all(problem, space, placements, true));
    const auto middle = Clock::now();
    benchmark::DoNotOptimize(cost_all(problem, space, placements, false));
    with += std::chrono::duration<double>(middle - start).count();
    without += std::chrono::duration<double>(Clock::now() - middle).count();
  }
  state.counters["placements"] = static_cast<double>(placements);
  state.counters["speedup"] = without / with;
}
BENCHMARK(BM_DigitSets)->Name("digit_sets")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hpplan

BENCHMARK_MAIN();
