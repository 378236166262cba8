// profiles/models/*.yaml -> ModelSpec. Every key is checked; see any file of that folder for the format.
#pragma once

#include <string>

#include "planner/spec/model.h"

namespace hpplan {

// text is the file's content, file its name in error texts. Throws InputError.
ModelSpec parse_model(const std::string& text, const std::string& file);

// What must hold of any model, wherever it was read: positive counts, kv_heads divides heads, at least one
// block and one stream. where names the file.
void check_model(const ModelSpec& model, const std::string& file);

}  // namespace hpplan
