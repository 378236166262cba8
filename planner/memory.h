// Memory of the fullest rank by stage (load, text encode, denoise, decode), and of the host while loading.
#pragma once

#include "planner/problem.h"
#include "planner/spec/plan.h"

namespace hpplan {

MemoryEstimate estimate_memory(const Problem& problem, const Degrees& degrees, RingMethod method,
                               const Split& split);

}  // namespace hpplan
