#include "planner/spec/plan.h"

#include <algorithm>

namespace hpplan {

Bytes MemoryEstimate::peak() const { return std::max({load, text, denoise, decode}); }

}  // namespace hpplan
