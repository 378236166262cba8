#include "runtime/models/model.h"

namespace hpplan::runtime {

TensorMap Model::forward(const TensorMap& inputs) {
  prepare(inputs);
  TensorMap latents;
  for (const auto& entry : latent_shapes()) {
    const auto found = inputs.find(entry.first);
    if (found != inputs.end()) latents[entry.first] = found->second;
  }
  return gather(step(local(latents), inputs));
}

}  // namespace hpplan::runtime
