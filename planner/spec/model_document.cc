// ModelSpec -> the keys of a model profile; model_yaml.cc reads them back.
#include "planner/spec/plan_document.h"

namespace hpplan {
namespace {

Document component(const ComponentSpec& c) {
  return {{"weights", std::to_string(static_cast<std::int64_t>(c.weights.value)) + "B"},
          {"heads", c.heads},
          {"activation", std::to_string(static_cast<std::int64_t>(c.activation.value)) + "B"},
          {"per_pixel", c.per_pixel},
          {"basis", std::string(to_string(c.source))}};
}

Document block(const BlockSpec& b) {
  Document d = {{"name", b.name}, {"count", b.count}};
  if (b.dual_stream) d["dual_stream"] = true;
  if (b.cross_attention) d["cross_attention"] = true;
  if (b.parallel_mlp) d["parallel_mlp"] = true;
  d["mlp_width"] = b.mlp_width;
  if (b.mlp_gated) d["mlp_gated"] = true;
  if (b.adaln_out > 0) {
    d["adaln_in"] = b.adaln_in;
    d["adaln_out"] = b.adaln_out;
  }
  if (b.text_hidden > 0) d["text_hidden"] = b.text_hidden;
  if (b.text_mlp_width > 0) d["text_mlp_width"] = b.text_mlp_width;
  for (const BlockSpec::Packed& p : b.packed) d["packed"][p.name] = p.parts;
  return d;
}

Document stream(const StreamSpec& s) {
  constexpr const char* kKinds[] = {"packed", "joint", "context"};
  Document d = {{"name", s.name}, {"kind", kKinds[static_cast<int>(s.kind)]}};
  if (s.pixels_h > 0) d["pixels"] = {s.pixels_h, s.pixels_w};
  if (s.frame_group > 0)
    d["frames"] = {{"group", s.frame_group},
                   {"first", s.frame_first},
                   {"latent_group", s.latent_group},
                   {"latent_first", s.latent_first},
                   {"per_token", s.latent_frames_per_token}};
  if (s.rows_per_tick > 0)
    d["audio"] = {{"rows_per_tick", s.rows_per_tick}, {"ticks_per_second", s.ticks_per_second}, {"fps", s.fps}};
  if (s.text_rows > 0) d["rows"] = s.text_rows;
  if (s.text_fixed) d["fixed"] = true;
  if (s.align > 0) d["align"] = s.align;
  return d;
}

}  // namespace

Document model_document(const ModelSpec& m) {
  constexpr const char* kNorms[] = {"none", "head", "full"};
  Document d;
  d["name"] = m.name;
  d["title"] = m.title;
  if (!m.class_name.empty()) d["class"] = m.class_name;
  d["hidden"] = m.hidden;
  d["heads"] = m.heads;
  d["kv_heads"] = m.kv_heads;
  d["head_dim"] = m.head_dim;
  d["qk_norm"] = kNorms[static_cast<int>(m.qk_norm)];
  d["masks_padding"] = m.masks_padding;
  if (m.context_width > 0) d["context_width"] = m.context_width;
  for (const BlockSpec& b : m.blocks) d["blocks"].push_back(block(b));
  for (const StreamSpec& s : m.streams) d["streams"].push_back(stream(s));
  if (m.other_parameters > 0) d["other_parameters"] = m.other_parameters;
  if (m.published_parameters) d["published_parameters"] = *m.published_parameters;
  d["guidance_branches"] = m.guidance_branches;
  d["transformers"] = m.transformers;
  d["text_encoder"] = component(m.text_encoder);
  d["decoder"] = component(m.decoder);
  d["defaults"] = {{"height", m.defaults.height}, {"width", m.defaults.width},   {"frames", m.defaults.frames},
                   {"text_rows", m.defaults.text_rows}, {"steps", m.defaults.steps}, {"batch", m.defaults.batch},
                   {"dtype", m.defaults.dtype}};
  d["source"] = m.source;
  return d;
}

}  // namespace hpplan
