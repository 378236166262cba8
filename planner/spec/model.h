// ModelSpec: the dimensions of one diffusion transformer, read from profiles/models/*.yaml or from a
// diffusers transformer config.json. Plain values; every count is positive once read.
//
// Symbols used across the planner: D hidden, H heads, Hkv kv_heads, d head_dim, A = H*d, F mlp_width,
// T tp, R ring, U ulysses, S rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/spec/units.h"

namespace hpplan {

// Where a number came from. Ordered from strongest to weakest; a prediction carries the weakest source
// it rests on.
enum class Source : std::uint8_t { kMeasured, kPublished, kDatasheet, kFitted, kDerived, kAssumed };
std::string_view to_string(Source source);
std::optional<Source> source_from(std::string_view name);

// How the rows of a stream take part in attention.
enum class StreamKind : std::uint8_t {
  kPacked,   // in the one packed sequence that all weights see (MiniMax-H3's text, audio, video)
  kJoint,    // concatenated for attention only, own weights in dual-stream blocks (FLUX text)
  kContext,  // keys and values of cross-attention alone; replicated, never cut (Wan text)
};

// One source of rows. rows = sum of the parts that the kind of stream has; see Workload.
struct StreamSpec {
  std::string name;  // "video", "image", "text", "audio", "reference"
  StreamKind kind = StreamKind::kPacked;
  // Pixel streams: pixels per token edge (VAE factor times patch); 0 for others.
  int pixels_h = 0;
  int pixels_w = 0;
  // Frame rule of pixel and audio streams: a request has frames = group*k + first, and
  // latent_group*k + latent_first latent frames (MiniMax-H3: 17k+5 -> 5k+2; Wan: 4k+1 -> k+1).
  // group 0: still image, frames must be 1.
  int frame_group = 0;
  int frame_first = 1;
  int latent_group = 0;
  int latent_first = 1;
  int latent_frames_per_token = 1;  // temporal patch; latent frames are rounded up to it
  // Audio: rows = rows_per_tick * ceil(frames / fps * ticks_per_second).
  int rows_per_tick = 0;
  double ticks_per_second = 0;
  double fps = 0;
  // Text: rows when the request does not say; fixed means the engine always pads to it.
  int text_rows = 0;
  bool text_fixed = false;
  // Rows are padded to a multiple of this by the model itself (0: not).
  int align = 0;
};

enum class QkNorm : std::uint8_t { kNone, kHead, kFull };  // kFull: over H*d, needs a reduce under tp

// A run of `count` equal blocks.
struct BlockSpec {
  std::string name;  // "block", "double", "single"
  int count = 0;
  bool dual_stream = false;     // joint text rows have their own projections and MLP
  bool cross_attention = false; // a second attention, rows on the replicated context
  bool parallel_mlp = false;    // attention and MLP side by side, one output projection: one all-reduce
  std::int64_t mlp_width = 0;   // F
  bool mlp_gated = false;       // gate and up: two F-wide inputs
  // Modulation (AdaLN) linear of the block: params = (in + 1) * out; out 0 means shared or none.
  std::int64_t adaln_in = 0;
  std::int64_t adaln_out = 0;
  // For models whose text rows are narrower than hidden in dual-stream blocks (Mochi); 0: same as hidden.
  std::int64_t text_hidden = 0;
  std::int64_t text_mlp_width = 0;
  // Names of fused projections and their parts in order ("qkv" -> q,k,v; "gate_up" -> gate,up), for
  // legality: every part divides by tp on its own.
  struct Packed {
    std::string name;
    std::vector<std::string> parts;
  };
  std::vector<Packed> packed;
};

// What stays beside the transformer in one request's pipeline.
struct ComponentSpec {
  Bytes weights;           // as stored
  int heads = 0;           // text encoder: its own tp limit when engines fold it; 0 unknown
  Bytes activation;        // peak beside the weights while it runs, at the profile's default workload
  bool per_pixel = true;   // activation grows with the pixels and frames of the request (decoder)
  Source source = Source::kAssumed;
};

struct ModelSpec {
  std::string name;
  std::string title;       // as people write it: "MiniMax-H3"
  std::vector<std::string> aliases;
  std::string class_name;  // diffusers transformer class, "" when there is none
  std::int64_t hidden = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  std::vector<BlockSpec> blocks;
  std::vector<StreamSpec> streams;  // in the order they are packed
  std::int64_t context_width = 0;   // input width of cross-attention K/V; 0: hidden
  QkNorm qk_norm = QkNorm::kHead;
  bool masks_padding = true;        // the model builds an attention mask, so rows may be padded
  std::int64_t other_parameters = 0;  // embeddings, time, final layers: not in any block, tp never divides them
  std::optional<std::int64_t> published_parameters;  // of the transformer, to check the dimensions against
  int guidance_branches = 1;        // forward passes a step without guidance distillation; 1: distilled
  int transformers = 1;             // experts used one after the other, all resident (Wan 2.2 A14B: 2)
  ComponentSpec text_encoder;
  ComponentSpec decoder;
  // Default request, used where the flags are silent.
  struct Default {
    int height = 0, width = 0, frames = 1, text_rows = 0, steps = 50, batch = 1;
    std::string dtype = "bf16";
  } defaults;
  std::string source;  // where the dimensions were read

  int layers() const;
  std::int64_t attention_width() const { return static_cast<std::int64_t>(heads) * head_dim; }  // A
  std::int64_t kv_width() const { return static_cast<std::int64_t>(kv_heads) * head_dim; }

  // Parameters of one block / of all blocks of the transformer, split by what tp does to them.
  struct Parameters {
    std::int64_t divided = 0;  // attention and MLP weights: 1/T on a rank
    std::int64_t adaln = 0;    // modulation: divided or not, by engine
    std::int64_t whole = 0;    // norms, row-parallel biases, embeddings: on every rank
    std::int64_t total() const { return divided + adaln + whole; }
  };
  Parameters block_parameters(const BlockSpec& block) const;
  Parameters parameters() const;  // one transformer; multiply by `transformers` for what is resident
};

}  // namespace hpplan
