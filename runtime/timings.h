// Repeated timings: what is told of them, and the slowest rank's in place of one's own.
#pragma once

#include <vector>

#include "runtime/device_mesh.h"

namespace hpplan::runtime {

double median(std::vector<double> values);  // of the two in the middle their mean
// Median distance from the median.
double spread(const std::vector<double>& values);
// The largest of every rank of the mesh, element by element. Collective.
std::vector<double> slowest(const DeviceMesh& mesh, const std::vector<double>& own);

}  // namespace hpplan::runtime
