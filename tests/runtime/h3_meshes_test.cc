// Parity on every mesh of 2 to 8 ranks: first the candidates of the planner's own search,
// which keeps the best placement of each layout, then every other placement up to the
// machine's symmetry that its rules let through; p2p and allgather, in every head and row
// mode of hprun's profile. 8 ranks are three levels and two, so that placements differ in
// more than their degrees.
#include <gtest/gtest.h>

#include <cstdio>
#include <set>

#include "planner/enumerate.h"
#include "planner/rules.h"
#include "planner/search.h"
#include "planner/spec/catalog.h"
#include "planner/spec/engine_yaml.h"
#include "planner/spec/rates_yaml.h"
#include "tests/runtime/h3_parity.h"

namespace hpplan::runtime {
namespace {

Topology machine(const std::vector<int>& sizes) {
  Topology topology;
  topology.name = "test";
  topology.vendor = "cpu";
  topology.device = "cpu";
  topology.device_memory = Bytes(8 * kGiB);
  topology.host_memory = Bytes(64 * kGiB);
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
                   const Engine& engine) {
  const Catalog::Entry cpu = Catalog().find(DataKind::kDevice, "cpu");
  Workload workload;
  workload.batch = 2;
  workload.dtype = DType::kF32;
  workload.seq_len = reference.tensors.at("token_tags").size(0);
  return make_problem(spec_of(reference.config), workload, machine(sizes), engine,
                      parse_device(cpu.text, cpu.file), {}, FabricRules::kNotApplicable);
}

struct World {
  const char* reference;
  std::vector<int> sizes;
  std::size_t least_meshes;  // distinct runs there must have been
};
void PrintTo(const World& world, std::ostream* out) { *out << world.reference; }

class EveryMesh : public testing::TestWithParam<World> {
 protected:
  // One run, unless the same has been made already.
  void run(const Mesh& mesh, RingMethod method, const Split& split) {
    Plan plan = plan_of(reference_.config, mesh, method);
    plan.chosen.split = split;
    if (!HasFailure() && ran_.insert(describe(plan)).second)
      expect_parity(reference_, plan);
  }

  const H3Reference reference_{GetParam().reference};
  std::set<std::string> ran_;
};

TEST_P(EveryMesh, MatchesTheReference) {
  const Engine hprun =
      read_engine(std::string(HPPLAN_SOURCE_DIR) + "/profiles/engines/hprun.yaml");
  ASSERT_GE(hprun.head_modes.size(), 2U);
  for (const HeadMode& mode : hprun.head_modes) {
    Engine engine = hprun;
    engine.head_modes = {mode};
    const Problem problem = problem_of(reference_, GetParam().sizes, engine);
    for (const RingMethod method : {RingMethod::kP2p, RingMethod::kAllGather}) {
      const SearchResult found =
          make_plan(problem, {.devices = problem.topology.devices(),
                              .cfg = 1,
                              .replica = 1,
                              .ring_method = method,
                              .keep_all = true});
      ASSERT_TRUE(found.plan.has_value());
      ASSERT_FALSE(found.plan->candidates.empty());
      for (const Candidate& c : found.plan->candidates)
        run(c.mesh, c.ring_method, c.split);
      for (const DigitSpace& space :
           spaces_of(problem.topology, whole(problem.topology))) {
        for_each_placement(
            space, {Axis::kRing, Axis::kUlysses, Axis::kTp},
            [&](const Placement& placement) {
              const Degrees degrees = degrees_of(space, placement);
              if (degrees.ring() == 1 && method == RingMethod::kAllGather) return;
              const Mesh mesh = mesh_of(problem.topology, space, placement);
              const auto split = split_of(problem, degrees, method);
              if (!split || !legal(check_degrees(problem, degrees, method)) ||
                  !legal(check_mesh(problem, mesh, method)))
                return;
              run(mesh, method, *split);
            });
      }
    }
  }
  EXPECT_GE(ran_.size(), GetParam().least_meshes);
  std::printf("%zu runs of %s\n", ran_.size(), GetParam().reference);
}

INSTANTIATE_TEST_SUITE_P(Worlds, EveryMesh,
                         testing::Values(World{"h8", {2}, 7}, World{"h6", {3}, 7},
                                         World{"h8", {4}, 27}, World{"h6", {6}, 27},
                                         World{"h7", {7}, 6}, World{"h8", {2, 2, 2}, 91},
                                         World{"h14", {4, 2}, 72}),
                         [](const auto& info) {
                           std::string name = info.param.reference;
                           for (const int size : info.param.sizes)
                             name += "_" + std::to_string(size);
                           return name;
                         });

}  // namespace
}  // namespace hpplan::runtime
