// Which accelerator a rank computes on, if any, and what only an accelerator needs.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

namespace hpplan::runtime {

// How many accelerators are here that NCCL can use; 0 in a build without NCCL.
int nccl_devices();

// For CommOptions::device: the accelerator of the rank that is `local_rank` of
// `local_ranks` on this host, or -1 for the CPU, when there is not one for each of them.
// The first call loads libtorch's CUDA half where a driver is present, so it comes before
// the first tensor of the process.
int device_of(int local_rank, int local_ranks);

// The same decision from what is known: `devices` are seen by this process, `visible` is its CUDA_VISIBLE_DEVICES (null:
// not set). Where a launcher shows each process one device of its own, that is number 0 in all of them.
int device_of(int local_rank, int local_ranks, int devices, const char* visible);

// "cuda:3": what the host, not this process, calls `device` of this process; "" for the CPU. Two ranks of a host never
// have the same.
std::string device_name(int device, const char* visible);

// Waits until all that was given to `device` is done; nothing to wait for on the CPU.
void synchronize(c10::Device device);

// The most bytes of `device` that tensors of this process held at once; 0 on the CPU.
std::uint64_t peak_device_bytes(c10::Device device);

}  // namespace hpplan::runtime
