// Seconds of one collective on a fabric: t = a + w/B + c*sqrt(w) from the fabric's curves, its bandwidth
// part multiplied by the contention of the placement.
#pragma once

#include "planner/fabric.h"
#include "planner/spec/rates.h"

namespace hpplan {

// Wire bytes one rank sends: all-reduce 2(n-1)/n*size, all-gather, reduce-scatter and all-to-all
// (n-1)/n*size, shift size. size: whole tensor of all-reduce, whole gathered output, whole send buffer.
Bytes wire_bytes(Collective op, int n, Bytes size);

// n 1 takes no time.
Seconds collective_time(const FabricRates& rates, Collective op, int n, Bytes size, const AxisPath& path);

}  // namespace hpplan
