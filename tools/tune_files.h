// A folder that is measured elsewhere: one plan a layout, one script, and the measurement
// files that come back.
#pragma once

#include <string>
#include <vector>

#include "planner/tune.h"

namespace hpplan::tools {

// words: the flags that made the list, so that --collect makes the same one. Returns what
// to do next, for people.
std::string write_tuning_folder(const std::string& folder,
                                const std::vector<Contender>& list,
                                const std::vector<std::string>& words, int warmup,
                                int iterations);

std::vector<std::string> read_tuning_words(const std::string& folder);

// The list with the measurements of the folder, ranked. Throws InputError for
// measurements of plans that are not in the list any more.
std::vector<Contender> read_tuning_folder(const std::string& folder,
                                          std::vector<Contender> list);

}  // namespace hpplan::tools
