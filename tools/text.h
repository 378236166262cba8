// Text for people: columns, times, emphasis. Colour only where Style says so.
#pragma once

#include <string>
#include <vector>

#include "planner/spec/units.h"

namespace hpplan::tools {

struct Style {
  bool color = false;
};

std::string bold(const std::string& text, Style style);
std::string dim(const std::string& text, Style style);

// Four digits in the unit that fits: "1.434 s", "825.8 ms".
std::string time_text(Seconds time);

// Columns as wide as their widest cell, right-aligned but for the last.
std::string columns(const std::vector<std::vector<std::string>>& rows);

}  // namespace hpplan::tools
