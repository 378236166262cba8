// The communication libraries behind Group, each opened by one function. Which of
// backend_nccl.cc and backend_no_nccl.cc is in the build was decided by CMake; nobody
// else asks. Ranks are places in a group.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <string>

#include "runtime/accelerators.h"
#include "runtime/group.h"

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace hpplan::runtime {

using BackendHandle = c10::intrusive_ptr<c10d::Backend>;
using StoreHandle = c10::intrusive_ptr<c10d::Store>;

class Store::Impl {
 public:
  Impl(StoreHandle handle, int port) : handle(std::move(handle)), port(port) {}
  StoreHandle handle;
  int port = 0;
};

BackendHandle open_gloo(const StoreHandle& store, int rank, int size,
                        const CommOptions& options);

// Throws InputError when nccl_devices() is 0.
BackendHandle open_nccl(const StoreHandle& store, int rank, int size,
                        const CommOptions& options);

}  // namespace hpplan::runtime
