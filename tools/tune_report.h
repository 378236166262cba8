// A tuning run for people: progress, the measured table, and the sentences a plan keeps.
#pragma once

#include <string>
#include <vector>

#include "planner/tune.h"
#include "tools/text.h"

namespace hpplan::tools {

std::string progress_line(const TuneProgress& progress);
std::string tune_table(const TuneResult& result, double confidence, Style style);
std::vector<std::string> tune_notes(const TuneResult& result, double confidence);

}  // namespace hpplan::tools
