// SHA-256 of text, as "sha256:<64 hex digits>".
#pragma once

#include <string>
#include <string_view>

namespace hpplan {

std::string sha256(std::string_view text);

}  // namespace hpplan
