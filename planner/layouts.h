// The inner search: for every factorization of a device count the rules' verdict, its cost model and memory once, and
// its best placement. Legality and load of an axis depend on its digits alone, so both are kept by digit set;
// no mesh is built for a placement that loses.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "planner/cost.h"
#include "planner/enumerate.h"
#include "planner/problem.h"
#include "planner/search.h"
#include "planner/spec/plan.h"

namespace hpplan {

// One legal (degrees, ring method) at its best placement.
struct Layout {
  Degrees degrees;
  RingMethod method = RingMethod::kP2p;
  Split split;
  MemoryEstimate memory;
  std::vector<Finding> warnings;
  Seconds step;
  AxisPaths paths;
  // The placement, or the mesh of an engine with a fixed order.
  std::shared_ptr<const DigitSpace> space;
  Placement placement;
  std::optional<Mesh> fixed;
};

struct Layouts {
  std::vector<Layout> legal;           // not ranked
  std::vector<Rejection> rejections;   // by device count, then in the order of factorizations()
  std::int64_t placements = 0;         // looked at
  bool explain = true;                 // false: what is illegal is left out without a reason
};

// All layouts on exactly `devices` devices.
void find_layouts(const Problem& problem, const SearchOptions& options, int devices, Layouts& out);

// The candidate with its mesh and whole prediction.
Candidate candidate_of(const Problem& problem, const Layout& layout);

}  // namespace hpplan
