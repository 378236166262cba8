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
// Collective; every rank gets the same result.
Measurement measure_steps(Model& model, const DeviceMesh& mesh, const TensorMap& latents, const TensorMap& times,
                          const MeasureOptions& options);

}  // namespace hpplan::runtime
