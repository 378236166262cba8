// Parity on every mesh that the planner's own pieces let through: all digits of the
// machine given to tp, ring and ulysses in every way, the rules asked about each, p2p and
// allgather, in every head mode that hprun's profile has. Machines of 2 to 8 ranks; 8 as
// one level and as three, so that placements differ in more than their degrees.
#include <gtest/gtest.h>

#include <cstdio>
#include <set>

#include "planner/placement.h"
#include "planner/rules.h"
#include "planner/spec/engine_yaml.h"
#include "tests/runtime/h3_parity.h"

namespace hpplan::runtime {
namespace {

Topology machine(const std::vector<int>& sizes) {
  Topology topology;
  topology.name = "test";
  topology.vendor = "cpu";
  for (const int size : sizes) {
    Level level;
    level.name = "level" + std::to_string(topology.levels.size());
    level.size = size;
    level.kind = LinkKind::kSwitch;
    level.link = BytesPerSecond(1e10);
    topology.levels.push_back(level);
  }
  return topology;
}

Problem problem_of(const H3Reference& reference, const std::vector<int>& sizes,
                   const HeadMode& mode) {
  Engine engine =
      read_engine(std::string(HPPLAN_SOURCE_DIR) + "/profiles/engines/hprun.yaml");
  engine.head_modes = {mode};
  Workload workload;
  workload.batch = 2;
  workload.dtype = DType::kF32;
  workload.seq_len = reference.tensors.at("token_tags").size(0);
  return make_problem(spec_of(reference.config), workload, machine(sizes), engine, {}, {},
                      FabricRules::kNotApplicable);
}

// Every way to give the digits to the three axes.
std::vector<Placement> all_placements(const DigitSpace& space) {
  std::vector<Placement> out = {{}};
  for (std::size_t digit = 0; digit < space.digits().size(); ++digit) {
    std::vector<Placement> longer;
    for (const Placement& p : out) {
      for (const Axis axis : {Axis::kRing, Axis::kUlysses, Axis::kTp}) {
        longer.push_back(p);
        longer.back()[axis] |= DigitSet{1} << digit;
      }
    }
    out = std::move(longer);
  }
  return out;
}

struct World {
  const char* reference;
  std::vector<int> sizes;
  int least_meshes;  // distinct ones that must have run
};

void PrintTo(const World& world, std::ostream* out) { *out << world.reference; }

class EveryMesh : public testing::TestWithParam<World> {};

TEST_P(EveryMesh, MatchesTheReference) {
  const H3Reference reference(GetParam().reference);
  const Engine hprun =
      read_engine(std::string(HPPLAN_SOURCE_DIR) + "/profiles/engines/hprun.yaml");
  ASSERT_GE(hprun.head_modes.size(), 2U);
  std::set<std::string> ran;
  for (const HeadMode& mode : hprun.head_modes) {
    const Problem problem = problem_of(reference, GetParam().sizes, mode);
    const DigitSpace space(problem.topology, whole(problem.topology));
    for (const Placement& placement : all_placements(space)) {
      const Degrees degrees = degrees_of(space, placement);
      for (const RingMethod method : {RingMethod::kP2p, RingMethod::kAllGather}) {
        if (degrees.ring() == 1 && method == RingMethod::kAllGather) continue;
        const Mesh mesh = mesh_of(problem.topology, space, placement);
        if (!legal(check_degrees(problem, degrees, method)) ||
            !legal(check_mesh(problem, mesh, method)))
          continue;
        const auto split = split_of(problem, degrees, method);
        ASSERT_TRUE(split.has_value()) << degrees.str();
        const bool even = split->padded_heads == split->local_heads &&
                          split->padded_rows == split->rows;
        if (even && mode.policy != hprun.head_modes[0].policy)
          continue;  // the same run as in the first mode
        Plan plan = plan_of(reference.config, mesh, method);
        plan.chosen.split = *split;
        expect_parity(reference, plan);
        ran.insert(describe(plan));
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_GE(ran.size(), GetParam().least_meshes);
  RecordProperty("meshes", static_cast<int>(ran.size()));
  std::printf("%zu meshes of %s\n", ran.size(), GetParam().reference);
}

INSTANTIATE_TEST_SUITE_P(Worlds, EveryMesh,
                         testing::Values(World{"h8", {2}, 6}, World{"h6", {3}, 6},
                                         World{"h8", {4}, 24}, World{"h6", {6}, 24},
                                         World{"h7", {7}, 6}, World{"h8", {2, 2, 2}, 80},
                                         World{"h14", {4, 2}, 60}),
                         [](const auto& info) {
                           std::string name = info.param.reference;
                           for (const int size : info.param.sizes)
                             name += "_" + std::to_string(size);
                           return name;
                         });

}  // namespace
}  // namespace hpplan::runtime
