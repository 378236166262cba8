#include "runtime/models/h3_request.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "planner/spec/error.h"
#include "runtime/models/h3_sequence.h"

namespace hpplan::runtime {
namespace {

// Rotary time: 24 frames a second and 40 audio latents a second share one clock, so a
// frame takes 5/3; the decoder makes 17 frames of 5 latent ones, of which the first
// stands for one frame and the others for four.
constexpr double kTimePerFrame = 5.0 / 3.0;
constexpr int kFramesOfLatent[] = {1, 4, 4, 4, 4};
constexpr double kSpatialScale = 32.0;

// Coordinates of one spatial axis: `tokens` steps over extent / sqrt(area), centred on
// the middle of [0, 32).
std::vector<double> spatial_axis(std::int64_t tokens, double extent, double area) {
  const double ratio = extent / std::sqrt(area), left = (1.0 - ratio) / 2.0;
  std::vector<double> axis;
  for (std::int64_t i = 0; i < tokens; ++i)
    axis.push_back((left + static_cast<double>(i) * ratio / static_cast<double>(tokens)) *
                   kSpatialScale);
  return axis;
}

std::int64_t count_of(const TensorMap& request, const std::string& name) {
  const auto found = request.find(name);
  return found == request.end() ? 0 : found->second.item<std::int64_t>();
}

}  // namespace

H3Layout h3_layout_of(const Rows& rows, const Workload& workload) {
  H3Layout layout;
  std::int64_t video = 0;
  for (const StreamRows& stream : rows.streams) {
    if (stream.name == "text") {
      layout.text_rows += stream.rows;
    } else if (stream.name == "audio") {
      layout.audio_rows += stream.rows;
    } else if (stream.name == "reference") {
      layout.condition_rows += stream.rows;
    } else {
      video += stream.rows;
    }
  }
  constexpr std::int64_t kPixelsOfToken = 32;
  const std::int64_t h = workload.height / kPixelsOfToken,
                     w = workload.width / kPixelsOfToken;
  if (h > 0 && w > 0 && video % (h * w) == 0) {
    layout.tokens_h = h;
    layout.tokens_w = w;
  }
  layout.frames = video / (layout.tokens_h * layout.tokens_w);
  return layout;
}

TensorMap h3_layout_tensors(const H3Layout& l, const H3Config& config) {
  const std::int64_t frame_rows = l.tokens_h * l.tokens_w;
  const std::int64_t audio_begin = l.text_rows + l.condition_rows,
                     video_begin = audio_begin + l.audio_rows;
  const std::int64_t total = video_begin + l.frames * frame_rows;
  const double latent_h = static_cast<double>(l.tokens_h * config.patch[1]),
               latent_w = static_cast<double>(l.tokens_w * config.patch[2]);
  const std::vector<double> axis_h =
      spatial_axis(l.tokens_h, latent_h, latent_h * latent_w);
  const std::vector<double> axis_w =
      spatial_axis(l.tokens_w, latent_w, latent_h * latent_w);

  at::Tensor position = at::zeros({total, 3}, at::kDouble);
  double* p = position.data_ptr<double>();
  const auto place = [&](std::int64_t row, double t, double h, double w) {
    p[row * 3] = t;
    p[row * 3 + 1] = h;
    p[row * 3 + 2] = w;
  };
  const auto start = static_cast<double>(l.text_rows);
  for (std::int64_t i = 0; i < l.text_rows; ++i) place(i, static_cast<double>(i), 0, 0);
  for (std::int64_t i = 0; i < l.condition_rows; ++i) {
    const std::int64_t at = i % frame_rows;
    place(l.text_rows + i, start, axis_h[at / l.tokens_w], axis_w[at % l.tokens_w]);
  }
  // Audio has no height; its two channels stand at the left and right end of the picture.
  const std::int64_t ticks = (l.audio_rows + 1) / 2;
  for (std::int64_t i = 0; i < l.audio_rows; ++i) {
    place(audio_begin + i, start + static_cast<double>(i % ticks), 0,
          i < ticks ? axis_w.front() : axis_w.back());
  }
  double time = start;
  for (std::int64_t f = 0; f < l.frames; ++f) {
    for (std::int64_t i = 0; i < frame_rows; ++i)
      place(video_begin + f * frame_rows + i, time, axis_h[i / l.tokens_w],
            axis_w[i % l.tokens_w]);
    time += kTimePerFrame * kFramesOfLatent[f % 5];
  }

  at::Tensor tags = at::zeros({total}, at::kLong);
  tags.narrow(0, 0, l.text_rows).fill_(static_cast<int>(Modality::kText));
  tags.narrow(0, audio_begin, l.audio_rows).fill_(static_cast<int>(Modality::kAudio));
  TensorMap request = {
      {"position_ids", position},
      {"token_tags", tags},
      {"text_indices", at::arange(l.text_rows, at::kLong)},
      {"audio_indices", at::arange(audio_begin, video_begin, at::kLong)},
      {"video_indices", at::cat({at::arange(l.text_rows, audio_begin, at::kLong),
                                 at::arange(video_begin, total, at::kLong)})}};
  if (l.condition_rows > 0)
    request["condition_video_rows"] = at::full({1}, l.condition_rows, at::kLong);
  return request;
}

TensorMap h3_random_request(const H3Config& config, const Rows& rows,
                            const Workload& workload, std::uint64_t seed) {
  TensorMap request = h3_layout_tensors(h3_layout_of(rows, workload), config);
  at::Generator generator = at::detail::createCPUGenerator(seed);
  request["text"] =
      at::randn({workload.batch, request.at("text_indices").size(0), config.text_dim},
                generator, at::kFloat);
  return request;
}

TensorMap h3_times(const TensorMap& request, float video_t, float audio_t,
                   float condition_t) {
  const std::int64_t total = tensor_named(request, "token_tags").size(0);
  std::vector<float> levels = {video_t};
  at::Tensor index = at::zeros({total}, at::kLong);
  const auto assign = [&](const char* stream, std::int64_t begin, std::int64_t end,
                          float t) {
    if (begin >= end) return;
    auto at = std::find(levels.begin(), levels.end(), t);
    if (at == levels.end()) at = levels.insert(levels.end(), t);
    index.index_fill_(0, tensor_named(request, stream).slice(0, begin, end).to(at::kLong),
                      static_cast<double>(at - levels.begin()));
  };
  const std::int64_t given_video = count_of(request, "condition_video_rows"),
                     given_audio = count_of(request, "condition_audio_rows");
  assign("video_indices", 0, given_video, condition_t);
  assign("audio_indices", given_audio, tensor_named(request, "audio_indices").size(0),
         audio_t);
  assign("audio_indices", 0, given_audio, 1.0F);
  at::Tensor timestep = at::zeros({static_cast<std::int64_t>(levels.size())}, at::kFloat);
  std::copy(levels.begin(), levels.end(), timestep.data_ptr<float>());
  return {{"timestep", timestep}, {"timestep_indices", index}};
}

}  // namespace hpplan::runtime
