#include "runtime/denoise.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/where.h>

#include <algorithm>

#include "planner/spec/error.h"
#include "runtime/models/h3_request.h"

namespace hpplan::runtime {
namespace {

// One Euler step of a stream. The data estimate uses sigma as the model was told it, 1 -
// t; the blend uses the grid: in fp32 the two differ in the last digit, and the released
// pipeline keeps them apart.
at::Tensor euler(const at::Tensor& x, const at::Tensor& velocity, float sigma,
                 float sigma_next) {
  const float t = 1.0F - sigma, told = 1.0F - t, ratio = sigma_next / sigma;
  const at::Tensor data = x + told * velocity.to(at::kFloat);
  return ratio * x + (1.0F - ratio) * data;
}

// 1 where a row is generated and 0 where it is given, [1, rows, 1] (global).
at::Tensor generated_rows(const TensorMap& request, const std::string& stream,
                          std::int64_t rows) {
  at::Tensor mask = at::ones({1, rows, 1}, at::kBool);
  const auto given = request.find("condition_" + stream + "_rows");
  if (given != request.end())
    mask.narrow(1, 0, given->second.item<std::int64_t>()).fill_(false);
  return mask;
}

}  // namespace

std::vector<float> sigma_grid(int steps, float shift) {
  if (steps < 2)
    throw InputError(concat("steps: at least 2 grid points expected, given ", steps));
  if (!(shift > 0))
    throw InputError(concat("shift: a positive number expected, given ", shift));
  const at::Tensor base = at::linspace(1.0, 0.0, steps, at::kFloat);
  const at::Tensor shifted = base * shift / (base * (shift - 1.0F) + 1.0F);
  std::vector<float> sigmas(shifted.data_ptr<float>(), shifted.data_ptr<float>() + steps);
  sigmas.erase(std::unique(sigmas.begin(), sigmas.end()), sigmas.end());
  return sigmas;
}

TensorMap initial_noise(const std::map<std::string, std::vector<std::int64_t>>& shapes,
                        std::uint64_t seed) {
  // One generator, video first: the order the released pipeline draws in.
  at::Generator generator = at::detail::createCPUGenerator(seed);
  std::vector<std::string> order;
  for (const auto& entry : shapes) order.push_back(entry.first);
  std::stable_partition(order.begin(), order.end(),
                        [](const std::string& name) { return name == "video"; });
  TensorMap noise;
  for (const std::string& name : order)
    noise[name] = at::randn(shapes.at(name), generator, at::kFloat);
  return noise;
}

TensorMap denoise(Model& model, const TensorMap& request, const TensorMap& latents,
                  const DenoiseOptions& options) {
  const std::vector<float> video = sigma_grid(options.steps, options.video_shift);
  const std::vector<float> audio = sigma_grid(options.steps, options.audio_shift);
  if (video.size() != audio.size()) {
    throw InputError(
        concat("steps ", options.steps, ": shifts ", options.video_shift, " and ",
               options.audio_shift,
               " leave schedules of different length in fp32; take fewer steps"));
  }
  TensorMap masks;
  for (const auto& [name, tensor] : latents)
    masks[name] =
        generated_rows(request, name, tensor.size(1)).expand({tensor.size(0), -1, -1});
  const TensorMap generated = model.local(masks);
  TensorMap x = model.local(latents);
  const int total = static_cast<int>(video.size()) - 1;
  for (int i = 0; i < total; ++i) {
    const float video_t = 1.0F - video[i], audio_t = 1.0F - audio[i];
    const TensorMap velocity = model.step(
        x, h3_times(request, video_t, audio_t, std::max(video_t, options.condition_t)));
    for (auto& [name, rows] : x) {
      const std::vector<float>& sigmas = name == "audio" ? audio : video;
      rows = at::where(generated.at(name),
                       euler(rows, velocity.at(name), sigmas[i], sigmas[i + 1]), rows);
    }
    if (options.on_step) options.on_step(i + 1, total);
  }
  return model.gather(x);
}

}  // namespace hpplan::runtime
