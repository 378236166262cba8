// The sentences of a plan: what idles and why, which candidates cannot be told apart,
// what a restriction costs.
#pragma once

#include <string>
#include <vector>

#include "planner/layouts.h"
#include "planner/search.h"

namespace hpplan {

// ranked: best first, not empty.
std::vector<std::string> notes_of(const Problem& problem, const SearchOptions& options,
                                  const std::vector<Layout>& ranked);

// The engine's fixed rank order against the best placement of an engine that takes any
// mesh.
std::string cost_of_order(const Problem& problem, const Layout& chosen,
                          const Layout& free);

// Eager against compiled fabric rules; "" when the same layout is best.
std::string cost_of_eager(const Layout& chosen, const Layout& compiled);

// Peer access unknown: both answers.
std::string unknown_peers(const Layout& chosen, const Layout& without);

}  // namespace hpplan
