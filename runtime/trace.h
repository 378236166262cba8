// A Chrome / Perfetto trace of a step: one process a rank, one thread an axis, one span a collective, and the step
// itself.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "runtime/device_mesh.h"

namespace hpplan::runtime {

struct Span {
  std::string name, track;
  std::chrono::steady_clock::time_point start, end;
};

// Collective; rank 0 gets the whole trace as JSON text, the others "". Clocks are lined up at a barrier.
std::string merged_trace(const DeviceMesh& mesh, const std::vector<Span>& spans,
                         std::chrono::steady_clock::time_point zero);

}  // namespace hpplan::runtime
