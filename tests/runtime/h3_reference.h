// The reference tensors under tests/data/h3, and plans of the same dimensions to run them
// on.
#pragma once

#include <string>
#include <vector>

#include "planner/spec/plan.h"
#include "runtime/models/h3_config.h"
#include "runtime/safetensors.h"

namespace hpplan::runtime {

struct H3Reference {
  std::string folder;
  H3Config config;
  TensorMap tensors;  // reference.safetensors

  // tests/data/h3/NAME, or $HPPLAN_H3_DATA/NAME.
  explicit H3Reference(const std::string& name);
  // Conditioning rows of the loop, its grid points, its conditioning level.
  TensorMap loop_request() const;
  TensorMap loop_latents() const;
};

// The planner's view of the same model.
ModelSpec spec_of(const H3Config& config);
// A plan that runs it on this mesh.
Plan plan_of(const H3Config& config, const Mesh& mesh,
             RingMethod method = RingMethod::kP2p, HeadPolicy heads = HeadPolicy::kUneven,
             RowPolicy rows = RowPolicy::kUneven, DType dtype = DType::kF32);

// |got - want| / |want|, in fp64.
double relative_l2(const at::Tensor& got, const at::Tensor& want);

}  // namespace hpplan::runtime
