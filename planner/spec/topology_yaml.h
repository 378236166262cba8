// topologies/*.yaml -> Topology. Every key is checked, and every number must say where it was read; see any file
// of that folder for the format.
#pragma once

#include <string>

#include "planner/spec/topology.h"

namespace hpplan {

// text is the file's content, file its name in error texts. Throws InputError.
Topology parse_topology(const std::string& text, const std::string& file);

}  // namespace hpplan
