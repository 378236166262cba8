#include "tests/runtime/h3_reference.h"

#include <ATen/ATen.h>

#include <cstdlib>

namespace hpplan::runtime {

H3Reference::H3Reference(const std::string& name) {
  const char* elsewhere = std::getenv("HPPLAN_H3_DATA");
  folder = (elsewhere != nullptr ? std::string(elsewhere)
                                 : std::string(HPPLAN_SOURCE_DIR) + "/tests/data/h3") +
           "/" + name;
  config = h3_config_from_json(folder + "/config.json");
  tensors = read_safetensors(folder + "/reference.safetensors");
}

TensorMap H3Reference::loop_request() const {
  TensorMap request = tensors;
  request["text"] = tensors.at("loop.text");
  request["condition_video_rows"] = at::full({1}, 3, at::kLong);
  return request;
}

TensorMap H3Reference::loop_latents() const {
  return {{"video", tensors.at("loop.video_in").unsqueeze(0)},
          {"audio", tensors.at("loop.audio_in").unsqueeze(0)}};
}

ModelSpec spec_of(const H3Config& c) {
  ModelSpec spec;
  spec.name = "minimax-h3-reference";
  spec.class_name = "MiniMaxH3Transformer3DModel";
  spec.hidden = c.hidden;
  spec.heads = spec.kv_heads = static_cast<int>(c.heads);
  spec.head_dim = static_cast<int>(c.head_dim);
  BlockSpec block;
  block.name = "block";
  block.count = static_cast<int>(c.layers);
  block.mlp_width = c.ffn;
  block.mlp_gated = true;
  block.adaln_in = c.time_dim;
  block.adaln_out = c.adaln_width();
  block.packed = {{"gate_up", {"up", "gate"}}};
  spec.blocks = {block};
  StreamSpec video;
  video.name = "video";
  spec.streams = {video};
  spec.defaults.dtype = "f32";
  return spec;
}

Plan plan_of(const H3Config& config, const Mesh& mesh, RingMethod method,
             HeadPolicy heads, RowPolicy rows, DType dtype) {
  Plan plan{.model = spec_of(config), .chosen = {.mesh = mesh}};
  plan.workload.dtype = dtype;
  plan.chosen.ring_method = method;
  plan.chosen.split.mode.policy = heads;
  plan.chosen.split.mode.rows = rows;
  return plan;
}

double relative_l2(const at::Tensor& got, const at::Tensor& want) {
  const at::Tensor w = want.to(at::kDouble);
  return ((got.to(at::kDouble) - w).norm() / w.norm()).item<double>();
}

}  // namespace hpplan::runtime
