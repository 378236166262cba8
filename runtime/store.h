// Store: the small key-value place where ranks meet before they have connections: one TCP
// server on the first rank's host, or a map in this process for ranks that are threads. A
// value handle; copies are the same store. Used for opening communicators, for checking
// that shapes agree, and by the handshake.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace hpplan::runtime {

class Store {
 public:
  // serve: this process holds the values (one rank does). port 0 with serve picks a free
  // one. Throws InputError when the port is taken, or when nothing answers within
  // `timeout`; "connected" is retried until then.
  static Store tcp(const std::string& host, int port, bool serve,
                   std::chrono::milliseconds timeout);
  static Store in_process();

  int port() const;  // of a tcp store; 0 otherwise

  // The same store with `prefix` before every key: a second round of opening groups does
  // not find the keys of the first.
  Store prefixed(const std::string& prefix) const;

  // The same store over a connection of its own: a long wait on one does not keep the
  // other from answering.
  Store with_own_connection() const;

  void set(const std::string& key, const std::string& value) const;
  // Waits until the key is there. Throws StoreTimeout (std::runtime_error) naming the
  // key.
  std::string get(const std::string& key, std::chrono::milliseconds timeout) const;
  // Adds to a counter that begins at 0; returns the new value.
  std::int64_t add(const std::string& key, std::int64_t amount) const;

  class Impl;
  const Impl& impl() const { return *impl_; }
  explicit Store(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace hpplan::runtime
