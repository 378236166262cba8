// Proof that a mesh computes what one device computes, and that its axes are alive: parity alone cannot show that
// sharding is off, because every rank would then compute everything, correctly.
#pragma once

#include <string>
#include <vector>

#include "planner/spec/plan.h"
#include "runtime/device_mesh.h"
#include "runtime/models/model.h"
#include "runtime/weights.h"

namespace hpplan::runtime {

struct Verdict {
  std::vector<std::string> failures;  // empty: the mesh is right
  std::vector<std::string> lines;     // what was compared, with the figures
};

// Collective. One step from the same inputs on the mesh and, on rank 0, on one device: relative L2 by stream against
// the noise floor of the dtype (fp32: 1e-5; 16 bits: 1.5 times the error of one device against fp32); rows and heads of
// every rank against the plan; collectives of the step by axis and kind against what the model announces.
// The verdict is complete on rank 0; the others know whether it failed.
Verdict verify_step(const Plan& plan, Model& model, const DeviceMesh& mesh, WeightSource& weights,
                    const TensorMap& request, const TensorMap& latents, const TensorMap& times);

}  // namespace hpplan::runtime
