// `hpplan check`: judges a layout somebody wrote down, by the rules the search uses. The
// layout is degrees with a rank order, with an explicit rank grid from a file, or the
// mesh of a plan. Wrong input throws InputError; an illegal layout is findings.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/problem.h"
#include "planner/spec/plan.h"
#include "planner/spec/ranks_yaml.h"

namespace hpplan {

// "tp,ulysses,ring": axes, fastest-varying first.
std::vector<Axis> parse_order(const std::string& text);

// Axes above degree 1, outermost first.
std::vector<Axis> axes_in_use(const Degrees& degrees);

// The mesh of a rank file; nullopt when its ranks are no partition or no grid, which
// findings then say. Throws InputError when it is not written for these degrees.
std::optional<Mesh> mesh_of_ranks(const RankFile& file, const Degrees& degrees,
                                  std::vector<Finding>& findings);

struct CheckRequest {
  Degrees degrees;
  std::optional<RingMethod>
      ring_method;             // none: p2p where the engine has it, else allgather
  std::optional<int> devices;  // ranks that will be started; their product must be it
  std::optional<std::vector<Axis>> order;  // at most one of order, ranks and mesh
  std::optional<RankFile> ranks;
  std::optional<Mesh> mesh;  // of a plan
};

struct CheckResult {
  bool legal = false;
  RingMethod ring_method = RingMethod::kP2p;  // the one that was judged
  std::vector<Finding> findings;              // degrees, then mesh, then memory
  std::optional<Mesh> mesh;  // the one that was judged; none when the degrees make none
  std::string mesh_from;  // "order tp, ulysses, ring", "placement row:RR col:TT core:UU",
                          // "ranks.yaml"
  std::string instead;    // of a given mesh that is illegal: which of these degrees is not
  std::optional<Split> split;  // when heads and rows are legal
  std::optional<MemoryEstimate> memory;
};

// Without order, ranks and mesh: the rank order of the engine; for engines that take any
// mesh the first legal one of its default order, the other orders, and all placements.
CheckResult check_layout(const Problem& problem, const CheckRequest& request);

}  // namespace hpplan
