// A diffusers transformer config.json -> ModelSpec. The class name picks the profile of the same class for what a
// config does not say (streams, token arithmetic, text encoder, decoder); every dimension that the config gives
// takes the place of the profile's.
#pragma once

#include <string>

#include "planner/spec/catalog.h"
#include "planner/spec/model.h"

namespace hpplan {

// Throws InputError for malformed JSON, a missing or unknown _class_name (naming the known ones), a missing
// dimension and a dimension that is no positive whole number.
ModelSpec parse_config_json(const std::string& text, const std::string& file, const Catalog& catalog);

}  // namespace hpplan
