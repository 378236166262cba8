// profiles/devices/*.yaml -> DeviceRates, profiles/devices/fabrics/*.yaml -> FabricRates, and back.
#pragma once

#include <string>

#include "planner/spec/rates.h"

namespace hpplan {

// text is the file's content, file its name in error texts. Throw InputError.
DeviceRates parse_device(const std::string& text, const std::string& file);
FabricRates parse_fabric(const std::string& text, const std::string& file);

std::string write_device(const DeviceRates& rates);
std::string write_fabric(const FabricRates& rates);

}  // namespace hpplan
