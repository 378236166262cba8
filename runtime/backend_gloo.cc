#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "planner/spec/error.h"
#include "runtime/backend.h"

namespace hpplan::runtime {

BackendHandle open_gloo(const StoreHandle& store, int rank, int size,
                        const CommOptions& options) {
  auto settings = c10d::ProcessGroupGloo::Options::create(options.timeout);
  // One worker: collectives run in the order they were issued. Transfers between two
  // ranks need none, the device's own thread moves them.
  settings->threads = 1;
  try {
    settings->devices.push_back(
        options.interface.empty()
            ? c10d::ProcessGroupGloo::createDefaultDevice()
            : c10d::ProcessGroupGloo::createDeviceForInterface(options.interface));
  } catch (const std::exception& e) {
    throw InputError(concat("gloo cannot use the network interface '", options.interface,
                            "': ", e.what()));
  }
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, settings);
}

}  // namespace hpplan::runtime
