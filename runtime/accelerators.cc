#include "runtime/accelerators.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "planner/spec/error.h"

namespace hpplan::runtime {

int device_of(int local_rank, int local_ranks) {
  HP_CHECK(local_rank >= 0 && local_rank < local_ranks, local_rank, " of ", local_ranks);
  return nccl_devices() >= local_ranks ? local_rank : -1;
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
