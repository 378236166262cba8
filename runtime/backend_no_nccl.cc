#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "planner/spec/error.h"
#include "runtime/backend.h"

namespace hpplan::runtime {

int nccl_devices() { return 0; }

BackendHandle open_nccl(const StoreHandle&, int, int, const CommOptions&) {
  throw InputError("this hprun was built without NCCL (its headers were not found)");
}

}  // namespace hpplan::runtime
