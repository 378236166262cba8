// What the predictions of a plan rest on, measured on its own mesh: collectives by size
// on every axis' groups, all sibling groups at once, as a step runs them; and products,
// attention calls and copies in the shapes of the plan's model, on all ranks at once,
// since ranks of one host share it.
//
//   axis                     collective
//   tp                       all_reduce
//   ulysses                  all_to_all
//   ring                     shift, all_gather
//   ring x ulysses, cfg      all_gather
#pragma once

#include <functional>
#include <string>

#include "planner/spec/microbench.h"
#include "planner/spec/plan.h"
#include "runtime/device_mesh.h"

namespace hpplan::runtime {

struct ProbeOptions {
  int warmup = 3;      // calls that are not counted
  int iterations = 7;  // rounds that are; short calls are repeated within a round
  double longest = 1;  // seconds; a call expected to take longer is left out
  std::function<void(int done, int total)> progress;
  std::function<void(const std::string&)> note;  // what was left out
};

// Adds the plan's series to `into`, without those that are there. Times are the slowest
// rank's. Collective; every rank gets the same. Throws InputError for a dtype that hprun
// does not compute in.
void probe_mesh(const Plan& plan, const DeviceMesh& mesh, const ProbeOptions& options,
                Microbench& into);

}  // namespace hpplan::runtime
