// The flags that narrow the search. Shared by planning and tuning.
#pragma once

#include <optional>
#include <string>

#include "planner/search.h"
#include "tools/inputs.h"

namespace hpplan::tools {

struct SearchFlags {
  std::optional<int> tp, ring, ulysses, cfg, replica;
  std::string ring_method, objective = "latency", max_memory, latency_budget;
  bool every_placement = false;
};

// --devices stands with the inputs: a local topology has so many ranks.
void add_search_flags(CLI::App& app, SearchFlags& flags, Inputs& inputs);
SearchOptions search_options(const SearchFlags& flags, const Inputs& inputs);

}  // namespace hpplan::tools
