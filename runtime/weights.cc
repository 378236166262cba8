#include "runtime/weights.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <cmath>
#include <filesystem>

#include "planner/spec/error.h"
#include "runtime/linear.h"

namespace hpplan::runtime {

Slice slice_of(const WeightSpec& spec, int degree, int rank) {
  Slice slice;
  if (spec.role == Role::kReplicated || degree == 1 ||
      (spec.role == Role::kRow && spec.shape.size() == 1)) {
    return slice;
  }
  slice.dim = spec.role == Role::kColumn ? 0 : 1;
  const std::vector<std::int64_t> parts =
      spec.parts.empty() ? std::vector{spec.shape[slice.dim]} : spec.parts;
  std::int64_t sum = 0;
  for (const std::int64_t part : parts) sum += part;
  HP_CHECK(sum == spec.shape[slice.dim], spec.name, ": parts sum to ", sum, " of ",
           spec.shape[slice.dim]);
  for (const Range& r : shard_ranges(parts, degree, rank))
    slice.ranges.emplace_back(r.begin, r.end);
  return slice;
}

namespace {

std::string text_of(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

class CheckpointWeights final : public WeightSource {
 public:
  explicit CheckpointWeights(const std::string& path) : path_(path), checkpoint_(path) {}

  at::Tensor read(const WeightSpec& spec, const Slice& slice,
                  at::ScalarType dtype) override {
    const StoredTensor& stored = checkpoint_.info(spec.name);
    if (stored.shape != spec.shape) {
      throw InputError({path_}, spec.name,
                       "shape " + text_of(spec.shape) + " expected, the checkpoint has " +
                           text_of(stored.shape));
    }
    if (!at::isFloatingType(stored.dtype)) {
      throw InputError({path_}, spec.name,
                       concat("floating-point numbers expected, the checkpoint has ",
                              c10::toString(stored.dtype)));
    }
    return checkpoint_.read(spec.name, slice).to(dtype);
  }
  bool has(const std::string& name) const override { return checkpoint_.has(name); }
  std::uint64_t bytes_read() const override { return checkpoint_.bytes_read(); }
  std::string config_path() const override {
    const auto config = std::filesystem::path(path_) / "config.json";
    return std::filesystem::exists(config) ? config.string() : "";
  }
  std::string describe() const override { return "checkpoint " + path_; }

 private:
  std::string path_;
  Checkpoint checkpoint_;
};

std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ x >> 31;
}

std::uint64_t hash_of(const std::string& text, std::uint64_t seed) {
  std::uint64_t h = mix(seed + 0x9e3779b97f4a7c15ULL);
  for (const unsigned char c : text) h = mix(h ^ c) + 0x9e3779b97f4a7c15ULL;
  return h;
}

// The sum of four 16-bit uniforms: mean 0, variance 1 after scaling, exact on every
// machine.
float value_at(std::uint64_t stream, std::uint64_t element) {
  const std::uint64_t bits = mix(stream + element * 0x9e3779b97f4a7c15ULL);
  const auto sum = static_cast<std::int32_t>((bits & 0xffff) + (bits >> 16 & 0xffff) +
                                             (bits >> 32 & 0xffff) + (bits >> 48));
  constexpr float kScale = 1.0F / 37837.2F;  // 65536 * sqrt(4 / 12)
  return static_cast<float>(sum - 2 * 65535) * kScale;
}

class SeededWeights final : public WeightSource {
 public:
  explicit SeededWeights(std::uint64_t seed) : seed_(seed) {}

  at::Tensor read(const WeightSpec& spec, const Slice& slice,
                  at::ScalarType dtype) override {
    const int dim = slice.whole() ? 0 : slice.dim;
    const std::int64_t rows = spec.shape[0],
                       columns = spec.shape.size() > 1 ? spec.shape[1] : 1;
    const auto whole =
        std::vector{std::pair<std::int64_t, std::int64_t>{0, spec.shape[dim]}};
    const auto& ranges = slice.whole() ? whole : slice.ranges;
    const bool norm = spec.shape.size() == 1 &&
                      spec.name.find("norm") != std::string::npos &&
                      spec.name.ends_with("weight");
    const float scale =
        spec.shape.size() > 1 ? 1.0F / std::sqrt(static_cast<float>(columns)) : 0.1F;
    const std::uint64_t stream = hash_of(spec.name, seed_);

    std::vector<std::int64_t> shape = spec.shape;
    if (!slice.whole()) shape[dim] = slice.extent();
    at::Tensor out = at::empty(shape, at::kFloat);
    // Global index of each local row and column, then one value an element.
    const auto expand = [](const auto& pieces) {
      std::vector<std::int64_t> indices;
      for (const auto& [begin, end] : pieces) {
        for (std::int64_t i = begin; i < end; ++i) indices.push_back(i);
      }
      return indices;
    };
    const std::vector<std::int64_t> row_of =
        dim == 0 ? expand(ranges)
                 : expand(std::vector{std::pair<std::int64_t, std::int64_t>{0, rows}});
    const std::vector<std::int64_t> column_of =
        dim == 1 ? expand(ranges)
                 : expand(std::vector{std::pair<std::int64_t, std::int64_t>{0, columns}});
    float* to = out.data_ptr<float>();
    const auto width = static_cast<std::int64_t>(column_of.size());
    at::parallel_for(0, static_cast<std::int64_t>(row_of.size()),
                     std::max<std::int64_t>(1, 65536 / std::max<std::int64_t>(width, 1)),
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t r = begin; r < end; ++r) {
                         for (std::int64_t c = 0; c < width; ++c) {
                           const float v =
                               scale *
                               value_at(stream, static_cast<std::uint64_t>(
                                                    row_of[r] * columns + column_of[c]));
                           to[r * width + c] = norm ? 1.0F + v : v;
                         }
                       }
                     });
    return out.to(dtype);
  }
  bool has(const std::string&) const override { return true; }
  std::uint64_t bytes_read() const override { return 0; }
  std::string config_path() const override { return ""; }
  std::string describe() const override { return concat("seed ", seed_); }

 private:
  std::uint64_t seed_;
};

}  // namespace

std::unique_ptr<WeightSource> checkpoint_weights(const std::string& path) {
  return std::make_unique<CheckpointWeights>(path);
}
std::unique_ptr<WeightSource> seeded_weights(std::uint64_t seed) {
  return std::make_unique<SeededWeights>(seed);
}

}  // namespace hpplan::runtime
