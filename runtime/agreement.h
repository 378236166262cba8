// Agreement: every rank says something, rank 0 hears all, judges, and all hear the judgement. As many store calls as
// there are ranks, where comparing each with each would make their square.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "runtime/store.h"

namespace hpplan::runtime {

// Returns rank 0's judgement of what the ranks said, in rank order; "" by custom when it finds nothing wrong. Collective.
// Throws InputError naming the ranks that have not come within the timeout, on every rank that has. Never waits inside
// the store, so another thread of this process may use it meanwhile.
std::string agree(const Store& store, const std::string& topic, int rank, int world, const std::string& said,
                  const std::function<std::string(const std::vector<std::string>&)>& judge,
                  std::chrono::milliseconds timeout);

// Before the process ends: rank 0, which holds the store, waits until no other rank needs it, `patience` at most.
void part(const Store& store, int rank, int world, std::chrono::milliseconds patience);

}  // namespace hpplan::runtime
