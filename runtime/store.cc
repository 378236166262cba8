#include "runtime/store.h"

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "planner/spec/error.h"
#include "runtime/backend.h"

namespace hpplan::runtime {

Store Store::tcp(const std::string& host, int port, bool serve,
                 std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(port);
  options.isServer = serve;
  options.waitWorkers = false;
  options.timeout = timeout;
  try {
    auto store = c10::make_intrusive<c10d::TCPStore>(host, options);
    const int bound = store->getPort();
    return Store(std::make_shared<Impl>(std::move(store), bound));
  } catch (const c10::Error& e) {
    throw InputError(concat(serve ? "cannot listen on " : "nothing answers at ", host,
                            ":", port, ": ", e.what_without_backtrace()));
  } catch (const std::exception& e) {
    throw InputError(concat(serve ? "cannot listen on " : "nothing answers at ", host,
                            ":", port, ": ", e.what()));
  }
}

Store Store::in_process() {
  return Store(std::make_shared<Impl>(c10::make_intrusive<c10d::HashStore>(), 0));
}

int Store::port() const { return impl_->port; }

Store Store::prefixed(const std::string& prefix) const {
  return Store(std::make_shared<Impl>(
      c10::make_intrusive<c10d::PrefixStore>(prefix, impl_->handle), impl_->port));
}

Store Store::with_own_connection() const {
  return Store(std::make_shared<Impl>(impl_->handle->clone(), impl_->port));
}

void Store::set(const std::string& key, const std::string& value) const {
  impl_->handle->set(key, value);
}

std::string Store::get(const std::string& key, std::chrono::milliseconds timeout) const {
  // wait() takes its own limit; get() of a key that is there returns at once.
  impl_->handle->wait({key}, timeout);
  return impl_->handle->get_to_str(key);
}

std::int64_t Store::add(const std::string& key, std::int64_t amount) const {
  return impl_->handle->add(key, amount);
}

}  // namespace hpplan::runtime
