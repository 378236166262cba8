// H3Config: the dimensions of a MiniMax-H3 transformer, under the names diffusers gives
// them in config.json. A model profile knows fewer of them; the others are then derived
// from the published model's proportions.
#pragma once

#include <cstdint>
#include <string>

#include "planner/spec/model.h"

namespace hpplan::runtime {

// Rows of the packed sequence carry one of these tags; AdaLN has one table row per
// (timestep, modality).
enum class Modality : std::uint8_t { kVideo = 0, kText = 1, kAudio = 2 };
inline constexpr int kModalities = 3;

struct H3Config {
  std::int64_t heads = 56;
  std::int64_t head_dim = 128;
  std::int64_t hidden = 5376;
  std::int64_t layers = 50;
  std::int64_t refiner_layers = 2;
  std::int64_t ffn = 14336;
  std::int64_t in_channels = 24;
  std::int64_t audio_channels = 32;
  std::int64_t patch[3] = {1, 2, 2};
  std::int64_t text_dim = 5120;
  std::int64_t freq_dim = 256;
  std::int64_t time_hidden = 5376;
  std::int64_t time_dim = 2688;
  std::int64_t rope_freqs =
      16;  // an axis; 2 * 3 * rope_freqs channels of a head are rotated
  double rope_theta = 10000.0;
  double norm_eps = 1e-5;
  double qk_norm_eps = 1e-5;
  double final_norm_eps = 1e-5;

  std::int64_t attention_width() const { return heads * head_dim; }
  std::int64_t video_channels() const {
    return in_channels * patch[0] * patch[1] * patch[2];
  }
  std::int64_t adaln_width() const { return 6 * hidden * kModalities; }
  bool operator==(const H3Config&) const = default;
};

// Throws InputError for a key that is unknown, missing its meaning (rotary channels
// beyond the head) or of another class; keys that are absent have the class' defaults.
H3Config h3_config_from_json(const std::string& path);
H3Config h3_config_from_spec(const ModelSpec& spec);
// Throws InputError naming the first dimension in which the checkpoint's config is not
// the plan's model.
void check_same_model(const H3Config& config, const ModelSpec& spec,
                      const std::string& path);

}  // namespace hpplan::runtime
