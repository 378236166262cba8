// The search: problem -> placements -> legal meshes and rejections -> ranked candidates -> plan. Exhaustive
// over placements up to the machine's symmetry; 4,096 devices of 2^12 in under a second.
#pragma once

#include <optional>

#include "planner/problem.h"
#include "planner/spec/plan.h"

namespace hpplan {

enum class Objective : std::uint8_t {
  kLatency,     // fastest step
  kThroughput,  // most steps a second of the whole machine, with replicas
  kDevices,     // fewest devices within the latency budget
};

struct SearchOptions {
  std::optional<int> devices;              // exactly so many; else every useful number
  std::optional<int> tp, ring, ulysses, cfg, replica;  // pinned degrees
  std::optional<RingMethod> ring_method;
  Objective objective = Objective::kLatency;
  std::optional<Bytes> max_memory;         // of one rank
  std::optional<Seconds> latency_budget;   // of one step
  int runners_up = 5;
  bool keep_all = false;                   // fill Plan::candidates
  // Candidates of every placement (up to the machine's symmetry), not of each
  // factorization's best alone.
  bool every_placement = false;
};

// Throws InputError when an option asks for what the machine cannot have (more devices than it has).
// Plan::chosen is empty of meaning only when nothing is legal: then nullopt and *rejections tell why.
struct SearchResult {
  std::optional<Plan> plan;
  std::vector<Rejection> rejections;
};
SearchResult make_plan(const Problem& problem, const SearchOptions& options);

// The Pareto frontier over (step, devices, peak memory) of a plan's candidates.
std::vector<const Candidate*> pareto(const Plan& plan);

}  // namespace hpplan
