// The denoise loop of MiniMax-H3: two rectified-flow schedules, one for video and one for
// audio, stepped together. t = 1 - sigma, t = 1 is clean; the model predicts the velocity
// towards the data. Latents stay cut by rows for the whole loop, each rank stepping its
// own, and are gathered once at the end.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/models/model.h"

namespace hpplan::runtime {

struct DenoiseOptions {
  int steps =
      50;  // points of the sigma grid, the final 0 among them: steps - 1 evaluations
  float video_shift = 12.0F;
  float audio_shift = 3.0F;
  float condition_t =
      0.999F;  // noise level that conditioning rows are held at, when it is the later one
  std::function<void(int done, int total)>
      on_step;  // after each evaluation; may be empty
};

// linspace(1, 0, steps) shifted, s * x / (1 + (s - 1) * x), equal neighbours dropped;
// ends with 0.
std::vector<float> sigma_grid(int steps, float shift);

// Standard normal latents, drawn at global shape from one seed so that every mesh starts
// from the same noise.
TensorMap initial_noise(const std::map<std::string, std::vector<std::int64_t>>& shapes,
                        std::uint64_t seed);

// Runs all steps on global latents and returns the final ones (global, on every rank).
// request must be the one the model was prepared with; its "condition_video_rows" first
// video rows are kept as they are.
TensorMap denoise(Model& model, const TensorMap& request, const TensorMap& latents,
                  const DenoiseOptions& options);

}  // namespace hpplan::runtime
