#include "planner/spec/workload.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "planner/spec/error.h"

namespace hpplan {
namespace {

constexpr std::array<std::string_view, 6> kDTypes = {"f32", "bf16", "f16", "fp8", "int8", "nvfp4"};

// Larger requests are no images or videos; below these, no product of rows overflows.
constexpr int kMostPixels = 1 << 16;
constexpr int kMostFrames = 1 << 20;
constexpr std::int64_t kMostRows = std::int64_t{1} << 40;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::string rule_of(const StreamSpec& s) {
  return s.frame_first == 0 ? concat(s.frame_group, "k") : concat(s.frame_group, "k+", s.frame_first);
}

// Latent frames of a request, by the stream's frame rule.
std::int64_t latent_frames(const ModelSpec& model, const StreamSpec& s, int frames) {
  if (s.frame_group == 0) {
    if (frames != 1)
      throw InputError({"--frames"}, "", concat(model.title, " makes still images: frames must be 1, got ", frames));
    return 1;
  }
  if (frames < s.frame_first || (frames - s.frame_first) % s.frame_group != 0) {
    const int k = std::max(0, (frames - s.frame_first) / s.frame_group);
    const int below = s.frame_group * k + s.frame_first;
    const std::string nearest_frames =
        frames < s.frame_first ? concat("nearest ", s.frame_first)
                               : concat("nearest ", below, " and ", below + s.frame_group);
    throw InputError({"--frames"}, "", concat(model.title, " takes ", rule_of(s), " frames, got ", frames, "; ",
                                              nearest_frames));
  }
  const int k = (frames - s.frame_first) / s.frame_group;
  return static_cast<std::int64_t>(s.latent_group) * k + s.latent_first;
}

std::int64_t tokens_along(const ModelSpec& model, const char* what, int pixels, int per_token) {
  if (pixels % per_token == 0) return pixels / per_token;
  const int below = pixels / per_token * per_token;
  const std::string nearest_pixels = below == 0 ? concat("nearest ", per_token)
                                                : concat("nearest ", below, " and ", below + per_token);
  throw InputError({"--size"}, "", concat(model.title, " takes a ", what, " that is a multiple of ", per_token,
                                          " pixels, got ", pixels, "; ", nearest_pixels));
}

std::int64_t stream_rows(const ModelSpec& model, const StreamSpec& s, const Workload& w) {
  std::int64_t rows = 0;
  if (s.pixels_h > 0) {
    const std::int64_t frames = ceil_div(latent_frames(model, s, w.frames), std::max(1, s.latent_frames_per_token));
    rows = frames * tokens_along(model, "height", w.height, s.pixels_h) *
           tokens_along(model, "width", w.width, s.pixels_w);
  } else if (s.rows_per_tick > 0) {
    // The tiny slack keeps 124 frames at 24 fps from counting a tick for rounding alone.
    const double ticks = static_cast<double>(w.frames) / s.fps * s.ticks_per_second;
    rows = s.rows_per_tick * static_cast<std::int64_t>(std::ceil(ticks - 1e-9));
  } else if (s.name == "reference") {
    rows = w.reference_rows;
  } else {
    rows = s.text_fixed || w.text_rows < 0 ? s.text_rows : w.text_rows;
  }
  if (s.align > 0) rows = ceil_div(rows, s.align) * s.align;
  return rows;
}

void check_range(const char* flag, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least || value > most)
    throw InputError({flag}, "", concat("expected ", least, " to ", most, ", got ", value));
}

}  // namespace

std::string_view to_string(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)]; }

std::optional<DType> dtype_from(std::string_view name) {
  for (std::size_t i = 0; i < kDTypes.size(); ++i)
    if (kDTypes[i] == name) return static_cast<DType>(i);
  if (name == "fp32" || name == "float32") return DType::kF32;
  if (name == "fp16" || name == "float16") return DType::kF16;
  if (name == "bfloat16") return DType::kBf16;
  return std::nullopt;
}

double bytes_of(DType dtype) {
  switch (dtype) {
    case DType::kF32: return 4;
    case DType::kBf16:
    case DType::kF16: return 2;
    case DType::kFp8:
    case DType::kInt8: return 1;
    case DType::kNvfp4: return 0.5;
  }
  return 2;
}

std::int64_t Rows::total() const { return of(StreamKind::kPacked) + of(StreamKind::kJoint); }

std::int64_t Rows::of(StreamKind kind) const {
  std::int64_t rows = 0;
  for (const StreamRows& s : streams)
    if (s.kind == kind) rows += s.rows;
  return rows;
}

Rows rows_of(const ModelSpec& model, const Workload& w) {
  check_range("--batch", w.batch, 1, 1 << 16);
  check_range("--steps", w.steps, 1, 1 << 20);
  check_range("--guidance", w.branches, 1, 16);
  check_range("--text-tokens", w.text_rows, -1, 1 << 24);
  Rows rows;
  if (w.seq_len) {
    check_range("--seq-len", *w.seq_len, 1, kMostRows);
    // The named length is all rows that attention sees; context of cross-attention stays beside it.
    rows.streams.push_back({"rows", StreamKind::kPacked, *w.seq_len});
    for (const StreamSpec& s : model.streams)
      if (s.kind == StreamKind::kContext) rows.streams.push_back({s.name, s.kind, stream_rows(model, s, w)});
    return rows;
  }
  check_range("--frames", w.frames, 1, kMostFrames);
  if (w.height < 1 || w.width < 1 || w.height > kMostPixels || w.width > kMostPixels)
    throw InputError({"--size"}, "", concat("expected WIDTHxHEIGHT of 1 to ", kMostPixels, " pixels each, got ",
                                            w.width, "x", w.height));
  for (const StreamSpec& s : model.streams) rows.streams.push_back({s.name, s.kind, stream_rows(model, s, w)});
  return rows;
}

Workload default_workload(const ModelSpec& model) {
  Workload w;
  w.height = model.defaults.height;
  w.width = model.defaults.width;
  w.frames = model.defaults.frames;
  w.text_rows = model.defaults.text_rows > 0 ? model.defaults.text_rows : -1;
  w.batch = model.defaults.batch;
  w.steps = model.defaults.steps;
  w.branches = model.guidance_branches;
  if (const auto dtype = dtype_from(model.defaults.dtype)) w.dtype = *dtype;
  return w;
}

}  // namespace hpplan
