// Requests of MiniMax-H3: the packed layout [text | conditioning rows | audio | video]
// with the rotary coordinates its pipeline gives the rows, and the noise level of every
// row at a step.
#pragma once

#include <cstdint>

#include "planner/spec/workload.h"
#include "runtime/models/h3_config.h"
#include "runtime/safetensors.h"

namespace hpplan::runtime {

struct H3Layout {
  std::int64_t text_rows = 0;
  std::int64_t condition_rows = 0;  // leading video rows that are given, not generated
  std::int64_t audio_rows = 0;      // two channels, one after the other
  std::int64_t frames = 0;          // latent frames of tokens_h x tokens_w rows
  std::int64_t tokens_h = 1;
  std::int64_t tokens_w = 1;
};

// The layout that holds exactly these rows. Streams other than text, audio and reference
// are video rows; when they are no whole number of height x width frames they lie on the
// time axis alone.
H3Layout h3_layout_of(const Rows& rows, const Workload& workload);

// position_ids, token_tags and the three index tensors; "condition_video_rows" when there
// are any.
TensorMap h3_layout_tensors(const H3Layout& layout, const H3Config& config);

// The same with "text" drawn from a seed.
TensorMap h3_random_request(const H3Config& config, const Rows& rows,
                            const Workload& workload, std::uint64_t seed);

// "timestep" and "timestep_indices" of a step: generated video rows and text at video_t,
// audio at audio_t, conditioning rows at condition_t (audio ones are clean, 1).
TensorMap h3_times(const TensorMap& request, float video_t, float audio_t,
                   float condition_t);

}  // namespace hpplan::runtime
