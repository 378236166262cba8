// Where the groups of a mesh lie on the machine, as letters on its grid.
#pragma once

#include <string>

#include "planner/spec/plan.h"

namespace hpplan::tools {

// One grid an axis, side by side, a letter a group and a dot for an idle device; a line
// is a row of chips, a node, ... "" where the machine is one level, or too large to be
// read.
std::string placement_picture(const Topology& topology, const Mesh& mesh);

}  // namespace hpplan::tools
