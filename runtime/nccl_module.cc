#include "runtime/nccl_module.h"

#include <c10/cuda/CUDAFunctions.h>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

extern "C" {

int hpplan_nccl_device_count() { return c10::cuda::device_count(); }

// C linkage for the name alone; both sides are built together.
hpplan::runtime::BackendHandle hpplan_nccl_open(
    const hpplan::runtime::StoreHandle& store, int rank, int size,
    const hpplan::runtime::CommOptions& options) {
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(options.device));
  auto settings = c10d::ProcessGroupNCCL::Options::create();
  settings->timeout = options.timeout;
  auto backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, settings);
  // The communicator is made now, on every member, not at the first call.
  backend->eagerConnectSingleDevice(
      at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(options.device)));
  return backend;
}

}  // extern "C"
