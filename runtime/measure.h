// Timing of denoise steps on a mesh.
#pragma once

#include "planner/spec/plan.h"
#include "runtime/device_mesh.h"
#include "runtime/models/model.h"

namespace hpplan::runtime {

struct MeasureOptions {
  int warmup = 2;      // steps of the same shape that are not counted
  int iterations = 5;  // the same on all ranks
};

// Times step() of a prepared model. A step takes as long as on its slowest rank; ranks start each one together.
// Collective; every rank gets the same result but for the phases, which are its own: of the step that is the median on
// this rank, seconds. On a CPU they are exclusive and sum to step_of_this_rank:
//   compute_linear, compute_attention   matrix products of the blocks; attention kernels and the merge of their results
//   exposed_AXIS                        waiting for a collective with nothing else to do
//   compute_other                       the rest: norms, packing, modulation, starting collectives
// in_flight_AXIS, from issue to completion, overlaps with all of them.
Measurement measure_steps(Model& model, const DeviceMesh& mesh, const TensorMap& latents, const TensorMap& times,
                          const MeasureOptions& options);

}  // namespace hpplan::runtime
