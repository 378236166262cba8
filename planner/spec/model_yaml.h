// profiles/models/*.yaml -> ModelSpec. Every key is checked; see any file of that folder for the format.
#pragma once

#include <string>

#include "planner/spec/model.h"
#include "planner/spec/yaml_reader.h"

namespace hpplan {

// text is the file's content, file its name in error texts. Throws InputError.
ModelSpec parse_model(const std::string& text, const std::string& file);

// The same keys from a map that has others too (the model of a plan); finish() and check_model() are the caller's.
ModelSpec read_model(MapReader& in);

// What must hold of any model, wherever it was read: positive counts, kv_heads divides heads, at least one
// block and one stream. where names the file.
void check_model(const ModelSpec& model, const std::string& file);

}  // namespace hpplan
