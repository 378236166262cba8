#include "planner/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "planner/cost.h"
#include "planner/memory.h"
#include "planner/rules.h"
#include "planner/spec/error.h"
#include "tests/planner/machines.h"
#include "tests/planner/problems.h"

namespace hpplan {
namespace {

using testing::level;
using testing::machine;
using testing::neuron;
using testing::problem_named;
using testing::problem_on;

std::string note_with(const Plan& plan, const std::string& text) {
  for (const std::string& note : plan.notes)
    if (note.find(text) != std::string::npos) return note;
  return "";
}

// --- an independent, naive enumeration
// --------------------------------------------------------

using Key = std::tuple<Degrees, RingMethod>;

// Every mesh whose axes cut the coordinates of the machine's levels into aligned blocks:
// levels are given to axes factor by factor with plain loops, no digits, no tables, no
// symmetry.
void every_mesh(const Topology& t, const std::function<void(const Mesh&)>& visit) {
  struct Cut {
    int level, size, weight;
  };
  std::vector<Cut> cuts;
  for (int l = 0; l < static_cast<int>(t.levels.size()); ++l) {
    int left = t.levels[l].size;
    for (int p = t.levels[l].size; p >= 2; --p) {
      bool prime = true;
      for (int q = 2; q < p; ++q) prime = prime && p % q != 0;
      while (prime && left % p == 0) {
        left /= p;
        cuts.push_back({l, p, left});
      }
    }
  }
  const int n = t.devices();
  std::size_t ways = 1;
  for (std::size_t i = 0; i < cuts.size(); ++i) ways *= 3;
  for (std::size_t way = 0; way < ways; ++way) {
    std::vector<int> owner(cuts.size());
    std::size_t rest = way;
    for (int& o : owner) {
      o = static_cast<int>(rest % 3);
      rest /= 3;
    }
    std::array<int, 3> degree = {1, 1, 1};  // ring, ulysses, tp
    for (std::size_t i = 0; i < cuts.size(); ++i) degree[owner[i]] *= cuts[i].size;
    std::vector<int> ranks(static_cast<std::size_t>(n)), devices(ranks.size());
    std::iota(devices.begin(), devices.end(), 0);
    for (int device = 0; device < n; ++device) {
      std::array<int, 3> at = {0, 0, 0};
      for (std::size_t i = 0; i < cuts.size(); ++i) {
        int stride = 1;
        for (int l = cuts[i].level + 1; l < static_cast<int>(t.levels.size()); ++l)
          stride *= t.levels[l].size;
        const Level& level = t.levels[cuts[i].level];
        int label = device / stride % level.size;
        // Gray labels: which label stands at this position.
        if (level.labels == Labels::kGray)
          for (int g = 0; g < level.size; ++g)
            if ((g ^ (g >> 1)) == device / stride % level.size) label = g;
        const int value = label / cuts[i].weight % cuts[i].size;
        at[owner[i]] = at[owner[i]] * cuts[i].size + value;
      }
      ranks[(at[0] * degree[1] + at[1]) * degree[2] + at[2]] = device;
    }
    visit(Mesh(Degrees::make(degree[2], degree[0], degree[1]),
               {kAxes.begin(), kAxes.end()}, ranks, devices));
  }
}

// Best step of every legal (degrees, method), by the rules and the cost of explicit
// meshes.
std::map<Key, double> brute_force(const Problem& problem) {
  std::map<Key, double> best;
  every_mesh(problem.topology, [&](const Mesh& plain) {
    for (const RingMethod method : {RingMethod::kP2p, RingMethod::kAllGather}) {
      const Degrees& d = plain.degrees();
      if (d.ring() == 1 && method == RingMethod::kAllGather) continue;
      if (!legal(check_degrees(problem, d, method))) continue;
      const Split split = *split_of(problem, d, method);
      const MemoryEstimate memory = estimate_memory(problem, d, method, split);
      if (!legal(check_memory(problem, d, method, memory))) continue;
      // A p2p ring may be walked in any order that all rings share: try the fabric's.
      std::vector<Mesh> meshes = {plain};
      const auto rings = plain.groups(Axis::kRing);
      if (method == RingMethod::kP2p && d.ring() > 2) {
        if (const auto walk = problem.fabric->ring_order(rings.front())) {
          std::vector<int> ranks = plain.ranks();
          const int inner = d.ulysses() * d.tp();
          for (int r = 0; r < d.ring(); ++r) {
            const auto at =
                std::find(rings.front().begin(), rings.front().end(), (*walk)[r]);
            const int from = static_cast<int>(at - rings.front().begin());
            for (int i = 0; i < inner; ++i)
              ranks[r * inner + i] = plain.ranks()[from * inner + i];
          }
          meshes.emplace_back(d, plain.dims(), ranks, plain.devices());
        }
      }
      for (const Mesh& mesh : meshes) {
        if (!legal(check_mesh(problem, mesh, method))) continue;
        const double step = StepModel(problem, d, method, split)
                                .at(paths_of(problem, mesh, method))
                                .step()
                                .value;
        auto [at, fresh] = best.emplace(Key{d, method}, step);
        if (!fresh) at->second = std::min(at->second, step);
      }
    }
  });
  return best;
}

void expect_agreement(const Problem& problem) {
  SearchOptions options;
  options.devices = problem.topology.devices();
  options.keep_all = true;
  const SearchResult result = make_plan(problem, options);
  const auto expected = brute_force(problem);
  ASSERT_EQ(result.plan.has_value(), !expected.empty()) << problem.topology.name;
  if (!result.plan) return;
  std::set<Key> seen;
  for (const Candidate& c : result.plan->candidates) {
    const Key key{c.mesh.degrees(), c.ring_method};
    EXPECT_TRUE(seen.insert(key).second);
    const auto at = expected.find(key);
    ASSERT_NE(at, expected.end())
        << problem.topology.name << ' ' << c.mesh.degrees().str();
    EXPECT_NEAR(c.predicted.step.value, at->second, 1e-9 * at->second)
        << problem.topology.name << ' ' << c.mesh.degrees().str() << ' ' << c.placement;
    EXPECT_TRUE(legal(check_mesh(problem, c.mesh, c.ring_method))) << c.placement;
    const double again = StepModel(problem, c.mesh.degrees(), c.ring_method, c.split)
                             .at(paths_of(problem, c.mesh, c.ring_method))
                             .step()
                             .value;
    EXPECT_NEAR(c.predicted.step.value, again, 1e-9 * again) << c.placement;
  }
  EXPECT_EQ(seen.size(), expected.size()) << problem.topology.name;
  double best = std::numeric_limits<double>::infinity();
  for (const auto& [key, step] : expected) best = std::min(best, step);
  EXPECT_NEAR(result.plan->chosen.predicted.step.value, best, 1e-9 * best);
}

Topology with_rates(Topology t, const std::string& like) {
  const Topology known = testing::topology_named(like);
  t.device = known.device;
  t.fabric = known.fabric;
  t.vendor = known.vendor;
  t.device_memory = known.device_memory;
  t.peer_access = known.peer_access;
  return t;
}

TEST(SearchBruteForce, AgreesOnSmallMachines) {
  for (const char* name :
       {"hgx-h200", "rtx-pro-6000-x8", "mi300x-x8", "l40s-x8-a2a-slow", "a100-pcie-x4"})
    expect_agreement(problem_named("minimax-h3", name, "hprun"));
  Problem guided = problem_on(
      with_rates(machine("six-by-two", {level("node", 2, LinkKind::kNetwork, 400),
                                        level("gpu", 6, LinkKind::kSwitch, 450)}),
                 "hgx-h200"),
      "wan2.1-14b", "hprun");
  guided.workload.branches = 1;  // the naive enumeration knows three axes
  expect_agreement(guided);
}

TEST(SearchBruteForce, AgreesOnTheTorusUnderBothRules) {
  for (const FabricRules rules : {FabricRules::kEager, FabricRules::kCompiled}) {
    expect_agreement(problem_on(with_rates(neuron(2, 2, 4), "trn2.48xl"), "minimax-h3",
                                "hprun", rules));
    expect_agreement(problem_on(with_rates(neuron(4, 2, 2), "trn2.48xl"), "minimax-h3",
                                "hprun", rules));
    expect_agreement(problem_on(with_rates(neuron(4, 4, 2), "trn2.48xl"), "minimax-h3",
                                "hprun", rules));
  }
}

// --- the machine the tool was made for
// --------------------------------------------------------

TEST(Search, Trn2CompiledUses64CoresLegally) {
  const Problem problem =
      problem_named("minimax-h3", "trn2.48xl", "hprun", FabricRules::kCompiled);
  const SearchResult result = make_plan(problem, {});
  ASSERT_TRUE(result.plan);
  const Candidate& c = result.plan->chosen;
  EXPECT_EQ(c.mesh.size(), 64);
  for (const Axis axis : kAxes)
    for (const auto& g : c.mesh.groups(axis)) EXPECT_TRUE(problem.fabric->routable(g));
  EXPECT_NE(note_with(*result.plan, "56 of 64 devices would idle"), "");
}

TEST(Search, EagerNamesItsLossAgainstCompiled) {
  const SearchResult result = make_plan(
      problem_named("minimax-h3", "trn2.48xl", "hprun", FabricRules::kEager), {});
  ASSERT_TRUE(result.plan);
  for (const auto& g : result.plan->chosen.mesh.groups(Axis::kUlysses)) {
    if (g.size() < 2) continue;
    EXPECT_EQ(g.back() - g.front(), static_cast<int>(g.size()) - 1);
    EXPECT_EQ(g.front() % static_cast<int>(g.size()), 0);
  }
  EXPECT_NE(note_with(*result.plan, "eager fabric rules cost"), "");
}

TEST(Search, FixedRankOrderSaysWhatItCosts) {
  const SearchResult result =
      make_plan(problem_named("minimax-h3", "l40s-x8", "sglang"), {});
  ASSERT_TRUE(result.plan);
  EXPECT_EQ(result.plan->chosen.placement, "");
  EXPECT_NE(note_with(*result.plan, "the rank order of sglang costs"), "");
}

TEST(Search, UnknownPeerAccessShowsBothAnswers) {
  const SearchResult result =
      make_plan(problem_named("minimax-h3", "g6e.48xl", "hprun"), {});
  ASSERT_TRUE(result.plan);
  const std::string note =
      note_with(*result.plan, "peer access of this machine is not known");
  EXPECT_NE(note.find("if it works"), std::string::npos);
  EXPECT_NE(note.find("if it does not"), std::string::npos);
  const SearchResult known =
      make_plan(problem_named("minimax-h3", "l40s-x8", "hprun"), {});
  EXPECT_EQ(note_with(*known.plan, "peer access"), "");
}

TEST(Search, PinnedDegreesStillSearchPlacements) {
  const Problem problem =
      problem_named("minimax-h3", "trn2.48xl", "hprun", FabricRules::kCompiled);
  SearchOptions options;
  options.tp = 8;
  options.ring = 8;
  options.ulysses = 1;
  options.ring_method = RingMethod::kAllGather;
  const SearchResult result = make_plan(problem, options);
  ASSERT_TRUE(result.plan);
  EXPECT_EQ(result.plan->chosen.mesh.degrees(), Degrees::make(8, 8, 1));
  EXPECT_TRUE(result.plan->runners_up.empty());
  EXPECT_GT(result.plan->placements_examined, 10);
}

TEST(Search, WrongOptionsAreInputErrorsWithTheNearestRightValue) {
  const Problem problem = problem_named("minimax-h3", "hgx-h200", "hprun");
  const auto error = [&](const SearchOptions& options) -> std::string {
    try {
      make_plan(problem, options);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  for (const int n : {0, -1, 9, 1'000'000'000}) {
    SearchOptions options;
    options.devices = n;
    EXPECT_NE(error(options).find("expected 1 to 8"), std::string::npos) << n;
  }
  SearchOptions product;
  product.tp = 1'000'000'000;
  EXPECT_NE(error(product), "");
  SearchOptions division;
  division.devices = 8;
  division.tp = 3;
  EXPECT_NE(error(division).find("does not divide"), std::string::npos);
}

TEST(Search, PrimeCountsEndInReasons) {
  SearchOptions options;
  options.devices = 61;
  const SearchResult result = make_plan(
      problem_named("minimax-h3", "trn2.48xl", "hprun", FabricRules::kCompiled), options);
  EXPECT_FALSE(result.plan);
  EXPECT_FALSE(result.rejections.empty());
  for (const Rejection& r : result.rejections) EXPECT_NE(r.finding.message, "");
}

TEST(Search, EveryFactorizationIsALegalCandidateOrARejection) {
  SearchOptions options;
  options.devices = 8;
  options.keep_all = true;
  const SearchResult result =
      make_plan(problem_named("minimax-h3", "hgx-h200", "hprun"), options);
  ASSERT_TRUE(result.plan);
  std::multiset<Key> seen;
  for (const Candidate& c : result.plan->candidates)
    seen.insert({c.mesh.degrees(), c.ring_method});
  for (const Rejection& r : result.rejections) seen.insert({r.degrees, r.ring_method});
  // 10 ways to write 8 as tp x ring x ulysses; the 6 with a ring twice.
  EXPECT_EQ(seen.size(), 16u);
  EXPECT_EQ(std::set<Key>(seen.begin(), seen.end()).size(), 16u);
}

TEST(Search, ThroughputFillsTheMachineWithReplicas) {
  SearchOptions options;
  options.objective = Objective::kThroughput;
  const SearchResult result =
      make_plan(problem_named("minimax-h3", "hgx-h200", "hprun"), options);
  ASSERT_TRUE(result.plan);
  const Candidate& best = result.plan->chosen;
  EXPECT_EQ(best.mesh.size(), 8);
  SearchOptions one;
  one.devices = 8;
  const SearchResult fast =
      make_plan(problem_named("minimax-h3", "hgx-h200", "hprun"), one);
  EXPECT_GE(best.mesh.degrees().replica() / best.predicted.step.value,
            1 / fast.plan->chosen.predicted.step.value);
}

TEST(Search, FewestDevicesWithinTheBudget) {
  const Problem problem = problem_named("minimax-h3", "hgx-h200", "hprun");
  SearchOptions options;
  options.objective = Objective::kDevices;
  options.latency_budget = Seconds(2.0);
  const SearchResult result = make_plan(problem, options);
  ASSERT_TRUE(result.plan);
  EXPECT_LE(result.plan->chosen.predicted.step.value, 2.0);
  const int used = result.plan->chosen.mesh.size();
  for (int n = 1; n < used; ++n) {
    SearchOptions fewer;
    fewer.devices = n;
    const SearchResult r = make_plan(problem, fewer);
    if (r.plan) EXPECT_GT(r.plan->chosen.predicted.step.value, 2.0) << n;
  }
}

TEST(Search, MemoryBudgetRejectsWithNumbers) {
  SearchOptions options;
  options.devices = 8;
  options.max_memory = Bytes(40 * kGiB);
  const SearchResult result =
      make_plan(problem_named("minimax-h3", "hgx-h200", "hprun"), options);
  ASSERT_TRUE(result.plan);
  EXPECT_LE(result.plan->chosen.memory.peak().value, 40 * kGiB);
  EXPECT_TRUE(
      std::any_of(result.rejections.begin(), result.rejections.end(),
                  [](const Rejection& r) { return r.finding.code == "max-memory"; }));
}

TEST(Search, ParetoKeepsWhatNothingBeats) {
  SearchOptions options;
  options.keep_all = true;
  const SearchResult result =
      make_plan(problem_named("minimax-h3", "hgx-h200", "hprun"), options);
  ASSERT_TRUE(result.plan);
  const auto frontier = pareto(*result.plan);
  ASSERT_FALSE(frontier.empty());
  for (const Candidate* a : frontier)
    for (const Candidate& b : result.plan->candidates)
      EXPECT_FALSE(b.predicted.step < a->predicted.step &&
                   b.mesh.size() <= a->mesh.size() &&
                   b.memory.peak() <= a->memory.peak());
  EXPECT_LT(frontier.size(), result.plan->candidates.size());
}

// Same inputs, same plan, whatever was planned before.
TEST(Search, IsDeterministic) {
  const Problem problem =
      problem_named("minimax-h3", "trn2.48xl", "hprun", FabricRules::kEager);
  const auto text = [&] {
    std::string all;
    const SearchResult r = make_plan(problem, {});
    for (const Candidate& c : r.plan->runners_up) all += c.placement + "|";
    for (const std::string& n : r.plan->notes) all += n + "|";
    for (const Rejection& x : r.rejections)
      all += x.degrees.str() + x.finding.message + "|";
    return r.plan->chosen.placement + all;
  };
  EXPECT_EQ(text(), text());
}

// Two nodes of 8: tp stays inside a node, the slow links carry the axis that talks least.
TEST(Search, TpStaysInsideANode) {
  Topology t = with_nodes(testing::topology_named("hgx-h200"), 2);
  SearchOptions options;
  options.tp = 8;
  options.ring = 2;
  options.ulysses = 1;
  const SearchResult result = make_plan(problem_on(t, "minimax-h3", "hprun"), options);
  ASSERT_TRUE(result.plan);
  EXPECT_EQ(result.plan->chosen.placement, "node:R gpu:TTT");
}

}  // namespace
}  // namespace hpplan
