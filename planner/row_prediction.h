// What the planner says of one published row: its time and its memory.
//
// A published layout ran, whatever our rules think of it; where they refuse it, uneven
// shares describe it. Weights that are spread over ranks (FSDP) are gathered a block
// ahead: what takes longer than the block's own work shows.
#pragma once

#include "planner/match.h"
#include "planner/spec/plan.h"

namespace hpplan {

// No band for an attention call alone (low and high 0).
Prediction predict_row(const MatchedRow& row);
MemoryEstimate memory_of_row(const MatchedRow& row);

}  // namespace hpplan
