// Weights: where they come from (a diffusers folder, or a seed) and which part of each
// one a rank holds. The model says the role of every weight; a slice is cut before
// anything is copied. The same seed gives the same global values on every mesh.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/safetensors.h"

namespace hpplan::runtime {

// What tensor parallelism does to a weight [out, in] (or a bias [out]).
enum class Role : std::uint8_t {
  kReplicated,  // whole on every rank
  kColumn,      // output rows divided; the bias with them
  kRow,         // input columns divided; the bias whole, added once after the sum
};

struct WeightSpec {
  std::string name;
  std::vector<std::int64_t> shape;  // global
  Role role = Role::kReplicated;
  // Fused projections: sizes of the parts along the divided dimension, each divided on
  // its own and the local pieces laid side by side ({F, F} for gate|up). Empty: one part.
  std::vector<std::int64_t> parts = {};
};

// The part of `spec` that tp coordinate `rank` of `degree` holds. Throws
// InputError when a part does not divide.
Slice slice_of(const WeightSpec& spec, int degree, int rank);

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // The slice of a weight in `dtype`, contiguous, on the CPU. Throws InputError when the
  // source lacks the weight or has it in another shape.
  virtual at::Tensor read(const WeightSpec& spec, const Slice& slice,
                          at::ScalarType dtype) = 0;
  virtual bool has(const std::string& name) const = 0;
  // Bytes taken from the checkpoint so far, as stored (0 for seeded weights).
  virtual std::uint64_t bytes_read() const = 0;
  // The config.json beside a checkpoint's weights; "" where there is none.
  virtual std::string config_path() const = 0;
  // "seed 1", "checkpoint /models/h3/transformer"
  virtual std::string describe() const = 0;
};

std::unique_ptr<WeightSource> checkpoint_weights(const std::string& path);
// Values depend on (seed, name, element) alone: about normal, matrices scaled by
// 1/sqrt(in), norms near 1.
std::unique_ptr<WeightSource> seeded_weights(std::uint64_t seed);

}  // namespace hpplan::runtime
