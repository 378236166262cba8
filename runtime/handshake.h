// Handshake: before anything is loaded, every rank tells the others what it was given, and all compare. A rank with
// another plan, another place in the mesh or another build is named by all.
#pragma once

#include <chrono>
#include <string>

#include "planner/spec/plan.h"
#include "runtime/store.h"

namespace hpplan::runtime {

// Throws InputError that names the ranks that differ from rank 0 and in what (plan hash, software, groups), and the
// ranks that did not come within the timeout.
// `device` is what the host calls this rank's accelerator ("" for the CPU): two ranks of one host on one accelerator
// are named too, as each would take the other's memory.
void shake_hands(const Store& store, const Plan& plan, int rank, const std::string& software, const std::string& device,
                 std::chrono::milliseconds timeout);

// "plan.yaml needs 8 ranks (tp4 x ulysses2), 4 were started: ..." or "" when they fit.
std::string wrong_world(const Plan& plan, int world);

}  // namespace hpplan::runtime
