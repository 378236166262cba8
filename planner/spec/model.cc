#include "planner/spec/model.h"

#include <array>

namespace hpplan {
namespace {
constexpr std::array<std::string_view, 6> kSources = {"measured", "published", "datasheet",
                                                      "fitted",   "derived",   "assumed"};
}  // namespace

std::string_view to_string(Source source) { return kSources[static_cast<std::size_t>(source)]; }

std::optional<Source> source_from(std::string_view name) {
  for (std::size_t i = 0; i < kSources.size(); ++i)
    if (kSources[i] == name) return static_cast<Source>(i);
  return std::nullopt;
}

int ModelSpec::layers() const {
  int n = 0;
  for (const BlockSpec& block : blocks) n += block.count;
  return n;
}

// D hidden, A = H*d, K = Hkv*d, F MLP width, g = 2 for a gated MLP else 1, C context width:
//   attention  D*A + 2*D*K + A*D          q, k, v, o
//   cross      D*A + 2*C*K + A*D
//   MLP        D*F*g + F*D
// Text weights of a dual-stream block are the same with the text's own widths (its q, k, v still have A and K
// columns). Norms: two of D and one of d each for q and k.
ModelSpec::Parameters ModelSpec::block_parameters(const BlockSpec& block) const {
  const std::int64_t a = attention_width(), k = kv_width();
  const auto attention = [&](std::int64_t d, std::int64_t context) { return d * a + 2 * context * k + a * d; };
  const auto mlp = [&](std::int64_t d, std::int64_t f) { return d * f * (block.mlp_gated ? 2 : 1) + f * d; };
  Parameters p;
  p.divided = attention(hidden, hidden) + mlp(hidden, block.mlp_width);
  if (block.cross_attention) p.divided += attention(hidden, context_width > 0 ? context_width : hidden);
  if (block.dual_stream) {
    const std::int64_t text = block.text_hidden > 0 ? block.text_hidden : hidden;
    p.divided += attention(text, text) + mlp(text, block.text_mlp_width > 0 ? block.text_mlp_width : block.mlp_width);
  }
  p.adaln = (block.adaln_in + 1) * block.adaln_out;
  p.whole = 2 * hidden + (qk_norm == QkNorm::kNone ? 0 : 2 * static_cast<std::int64_t>(head_dim));
  return p;
}

ModelSpec::Parameters ModelSpec::parameters() const {
  Parameters all;
  for (const BlockSpec& block : blocks) {
    const Parameters one = block_parameters(block);
    all.divided += one.divided * block.count;
    all.adaln += one.adaln * block.count;
    all.whole += one.whole * block.count;
  }
  all.whole += other_parameters;
  return all;
}

}  // namespace hpplan
