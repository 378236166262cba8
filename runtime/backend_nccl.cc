// NCCL and the CUDA half of libtorch live in a module of their own (nccl_module.cc),
// loaded the first time somebody asks for accelerators on a machine that has some.
#include <dlfcn.h>

#include <filesystem>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "planner/spec/error.h"
#include "runtime/backend.h"
#include "runtime/nccl_module.h"

namespace hpplan::runtime {
namespace {

struct Module {
  DeviceCount* device_count = nullptr;
  OpenNccl* open = nullptr;
  std::string error;
};

Module load() {
  Module module;
  if (!std::filesystem::exists("/dev/nvidiactl")) {
    module.error = "no NVIDIA driver is loaded on this machine";
    return module;
  }
  // Beside the program, else wherever the system looks for libraries.
  std::error_code none;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", none);
  void* handle =
      dlopen((program.parent_path() / kNcclModule).c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) handle = dlopen(kNcclModule, RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    module.error = concat(kNcclModule, " cannot be loaded: ", why != nullptr ? why : "");
    return module;
  }
  module.device_count = reinterpret_cast<DeviceCount*>(dlsym(handle, kDeviceCountName));
  module.open = reinterpret_cast<OpenNccl*>(dlsym(handle, kOpenNcclName));
  HP_CHECK(module.device_count != nullptr && module.open != nullptr, kNcclModule);
  return module;
}

const Module& module() {
  static const Module loaded = load();
  return loaded;
}

}  // namespace

int nccl_devices() {
  return module().device_count != nullptr ? module().device_count() : 0;
}

BackendHandle open_nccl(const StoreHandle& store, int rank, int size,
                        const CommOptions& options) {
  if (module().open == nullptr) throw InputError(concat("nccl: ", module().error));
  if (options.device < 0 || options.device >= nccl_devices())
    throw InputError(concat("nccl: device ", options.device, " is not among the ",
                            nccl_devices(), " of this machine"));
  return module().open(store, rank, size, options);
}

}  // namespace hpplan::runtime
