#include "runtime/models/h3_config.h"

#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "planner/spec/error.h"

namespace hpplan::runtime {
namespace {

using Json = nlohmann::json;

void check_consistent(const H3Config& c, const std::string& where) {
  if (6 * c.rope_freqs > c.head_dim) {
    throw InputError({where}, "rope_freq_dim",
                     concat("rotates 6 * ", c.rope_freqs, " = ", 6 * c.rope_freqs,
                            " channels, a head has ", c.head_dim));
  }
  if (c.freq_dim % 2 != 0)
    throw InputError({where}, "freq_dim",
                     concat("an even number expected, given ", c.freq_dim));
}

}  // namespace

H3Config h3_config_from_json(const std::string& path) {
  Json json;
  try {
    std::ifstream in(path);
    if (!in) throw InputError({path}, "", "cannot be opened");
    json = Json::parse(in);
  } catch (const Json::exception& e) {
    throw InputError({path}, "", std::string("not JSON: ") + e.what());
  }
  if (!json.is_object()) throw InputError({path}, "", "a JSON object expected");
  const std::string type = json.value("_class_name", Json("nothing")).dump();
  if (type != "\"MiniMaxH3Transformer3DModel\"") {
    throw InputError({path}, "_class_name",
                     "MiniMaxH3Transformer3DModel expected, given " + type);
  }
  H3Config c;
  const std::map<std::string, std::int64_t*> counts = {
      {"num_attention_heads", &c.heads},
      {"attention_head_dim", &c.head_dim},
      {"hidden_size", &c.hidden},
      {"num_layers", &c.layers},
      {"num_refiner_layers", &c.refiner_layers},
      {"ffn_dim", &c.ffn},
      {"in_channels", &c.in_channels},
      {"audio_in_channels", &c.audio_channels},
      {"text_dim", &c.text_dim},
      {"freq_dim", &c.freq_dim},
      {"time_embed_hidden_dim", &c.time_hidden},
      {"time_embed_dim", &c.time_dim},
      {"rope_freq_dim", &c.rope_freqs}};
  const std::map<std::string, double*> reals = {{"rope_theta", &c.rope_theta},
                                                {"norm_eps", &c.norm_eps},
                                                {"qk_norm_eps", &c.qk_norm_eps},
                                                {"final_norm_eps", &c.final_norm_eps}};
  std::vector<std::string> known = {"patch_size"};
  for (const auto& entry : counts) known.push_back(entry.first);
  for (const auto& entry : reals) known.push_back(entry.first);
  const auto count = [&](const std::string& key, const Json& value,
                         bool zero_ok = false) {
    if (!value.is_number_integer() || value.get<std::int64_t>() < (zero_ok ? 0 : 1)) {
      throw InputError({path}, key,
                       "a positive whole number expected, given " + value.dump());
    }
    return value.get<std::int64_t>();
  };
  for (const auto& [key, value] : json.items()) {
    if (key.starts_with("_") || key == "torch_dtype" || key == "dtype")
      continue;  // diffusers' own notes
    if (const auto n = counts.find(key); n != counts.end()) {
      *n->second = count(key, value, key == "num_refiner_layers");
    } else if (const auto r = reals.find(key); r != reals.end()) {
      if (!value.is_number() || value.get<double>() <= 0) {
        throw InputError({path}, key,
                         "a positive number expected, given " + value.dump());
      }
      *r->second = value.get<double>();
    } else if (key == "patch_size") {
      if (!value.is_array() || value.size() != 3)
        throw InputError({path}, key, "three numbers expected, given " + value.dump());
      for (int i = 0; i < 3; ++i) c.patch[i] = count(key, value[i]);
    } else {
      throw InputError({path}, key, "unknown key" + did_you_mean(key, known));
    }
  }
  check_consistent(c, path);
  return c;
}

H3Config h3_config_from_spec(const ModelSpec& spec) {
  if (spec.blocks.size() != 1) {
    throw InputError(concat("model ", spec.name,
                            ": MiniMax-H3 has one kind of block, this profile has ",
                            spec.blocks.size()));
  }
  const BlockSpec& block = spec.blocks[0];
  const H3Config published;
  H3Config c;
  c.heads = spec.heads;
  c.head_dim = spec.head_dim;
  c.hidden = spec.hidden;
  c.layers = block.count;
  c.ffn = block.mlp_width;
  c.time_dim = block.adaln_in > 0 ? block.adaln_in : spec.hidden / 2;
  c.time_hidden = spec.hidden;
  c.rope_freqs =
      std::max<std::int64_t>(1, c.head_dim * published.rope_freqs / published.head_dim);
  if (c.hidden != published.hidden) c.text_dim = c.hidden;
  check_consistent(c, "model " + spec.name);
  if (block.adaln_out != c.adaln_width()) {
    throw InputError(concat("model ", spec.name,
                            ": AdaLN of MiniMax-H3 is 18 * hidden = ", c.adaln_width(),
                            " wide, this profile says ", block.adaln_out));
  }
  return c;
}

void check_same_model(const H3Config& config, const ModelSpec& spec,
                      const std::string& path) {
  const auto same = [&](const char* key, std::int64_t has, std::int64_t planned) {
    if (has != planned)
      throw InputError({path}, key,
                       concat("the plan's model ", spec.name, " has ", planned,
                              ", the checkpoint ", has));
  };
  same("num_attention_heads", config.heads, spec.heads);
  same("attention_head_dim", config.head_dim, spec.head_dim);
  same("hidden_size", config.hidden, spec.hidden);
  same("num_layers", config.layers, spec.layers());
  if (!spec.blocks.empty()) same("ffn_dim", config.ffn, spec.blocks[0].mlp_width);
}

}  // namespace hpplan::runtime
