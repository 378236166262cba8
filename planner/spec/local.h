// This machine as a topology: its NVIDIA GPUs where nvidia-smi lists some, else its CPU cores joined by Gloo over
// the loopback device.
#pragma once

#include <optional>

#include "planner/spec/topology.h"

namespace hpplan {

// Devices this machine really has: GPUs, or cores this process may use.
int local_devices();
// devices: so many ranks (more than there are cores is allowed; they share them).
Topology local_topology(std::optional<int> devices);

}  // namespace hpplan
