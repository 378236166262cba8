// N ranks as N threads of one process: each with its own DeviceMesh over an in-process
// store and Gloo on the loopback interface. The first failure (by time) of a rank is
// thrown again here; the others then end by themselves, because the failed rank's
// connections close. A rank that never ends is reported with the collective it stands in,
// and the process is ended: a thread cannot be.
#pragma once

#include <chrono>
#include <functional>

#include "planner/spec/mesh.h"
#include "runtime/device_mesh.h"

namespace hpplan::runtime {

struct RankSettings {
  std::chrono::milliseconds collective_timeout{20000};
  std::chrono::seconds limit{120};  // for the whole call
  CheckCalls checks = CheckCalls::kFirst;
  int threads = 1;  // of one rank's arithmetic
};

void run_ranks(const Mesh& mesh, const std::function<void(const DeviceMesh&)>& body,
               const RankSettings& settings = {});

// The same before there is a mesh: rank and the store they share.
void run_threads(int ranks, const std::function<void(int rank, const Store&)>& body,
                 const RankSettings& settings = {});

// Comm options of a rank in these tests.
CommOptions loopback(const RankSettings& settings = {});

}  // namespace hpplan::runtime
