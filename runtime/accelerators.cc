#include "runtime/accelerators.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdlib>
#include <cstring>
#include <sstream>

#include "planner/spec/error.h"

namespace hpplan::runtime {

int device_of(int local_rank, int local_ranks) {
  return device_of(local_rank, local_ranks, nccl_devices(), std::getenv("CUDA_VISIBLE_DEVICES"));
}

int device_of(int local_rank, int local_ranks, int devices, const char* visible) {
  HP_CHECK(local_rank >= 0 && local_rank < local_ranks, local_rank, " of ", local_ranks);
  if (devices >= local_ranks) return local_rank;
  const bool one_each = visible != nullptr && *visible != '\0' && std::strchr(visible, ',') == nullptr;
  return devices == 1 && one_each ? 0 : -1;
}

std::string device_name(int device, const char* visible) {
  if (device < 0) return "";
  std::string name = std::to_string(device);
  std::istringstream list(visible != nullptr ? visible : "");
  for (int i = 0; i <= device && std::getline(list, name, ','); ++i) {
  }
  return concat("cuda:", visible != nullptr && *visible != '\0' ? name : std::to_string(device));
}

void synchronize(c10::Device device) {
  if (device.is_cpu()) return;
  c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

std::uint64_t peak_device_bytes(c10::Device device) {
  if (device.is_cpu()) return 0;
  const auto stats = at::getDeviceAllocator(device.type())->getDeviceStats(device.index());
  return static_cast<std::uint64_t>(
      stats.allocated_bytes[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)].peak);
}

}  // namespace hpplan::runtime
