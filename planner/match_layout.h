// The layout and the value of one published row. For match.cc; each returns a reason when
// there is nothing to read.
#pragma once

#include <optional>
#include <string>

#include "planner/match.h"

namespace hpplan {

// Degrees, ring method and weight shards.
std::string read_layout(const MeasuredRow& row, MatchedRow& matched);

// Seconds a step, or of something proportional to it. forwards: steps that a value
// covers, where it is known.
std::string read_value(const MeasuredGroup& group, double value,
                       std::optional<int> forwards, MatchedRow& matched);

}  // namespace hpplan
