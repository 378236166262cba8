// Reads profiles/engines/*.yaml. Every key is checked; a wrong one is an InputError with
// its place.
#pragma once

#include <string>

#include "planner/spec/engine.h"

namespace hpplan {

// text is the file's content, file its name in error texts.
Engine parse_engine(const std::string& text, const std::string& file);
Engine read_engine(const std::string& path);

}  // namespace hpplan
