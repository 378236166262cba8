// What the NCCL module offers to its loader: two functions found by name.
#pragma once

#include "runtime/backend.h"

namespace hpplan::runtime {

inline constexpr char kNcclModule[] = "libhp_nccl.so";
inline constexpr char kDeviceCountName[] = "hpplan_nccl_device_count";
inline constexpr char kOpenNcclName[] = "hpplan_nccl_open";

using DeviceCount = int();
using OpenNccl = BackendHandle(const StoreHandle& store, int rank, int size,
                               const CommOptions& options);

}  // namespace hpplan::runtime
