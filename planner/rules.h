// Rules: why a mesh is legal or not. A table of named rules, each a pure function that returns findings of
// one shape. Rules that need only the degrees run first and once a factorization; rules that need the
// explicit mesh run on every placement. `hpplan list rules` prints the table.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "planner/problem.h"
#include "planner/spec/plan.h"

namespace hpplan {

struct RuleInfo {
  std::string_view code;
  std::string_view meaning;  // one line
};
const std::vector<RuleInfo>& rule_table();

// How heads and rows fall on the ranks under the first head mode of the engine that allows these degrees;
// nullopt when none does (the findings of check_degrees then say why).
std::optional<Split> split_of(const Problem& problem, const Degrees& degrees, RingMethod method);

// Heads, KV heads, widths, rows of every stream, engine exclusions, branches, world size.
std::vector<Finding> check_degrees(const Problem& problem, const Degrees& degrees, RingMethod method);

// Fabric legality of every group of every axis, and whether the engine can express the mesh.
std::vector<Finding> check_mesh(const Problem& problem, const Mesh& mesh, RingMethod method);

// Memory: an error per stage that does not fit, with the smallest tp that would.
std::vector<Finding> check_memory(const Problem& problem, const Degrees& degrees, RingMethod method,
                                  const MemoryEstimate& memory);

// The mesh the engine builds for these degrees on its own (rank r on device r); nullopt for engines that take
// any mesh.
std::optional<Mesh> engine_mesh(const Problem& problem, const Degrees& degrees);

// Which collective kinds an axis issues: ulysses all-to-all, tp all-reduce, ring shift or all-gather, ...
std::vector<Collective> collectives_of(Axis axis, RingMethod method);

bool legal(const std::vector<Finding>& findings);

}  // namespace hpplan
