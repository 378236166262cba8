// Workload: the shape of one request, and the rows it makes of each stream of a model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/spec/model.h"

namespace hpplan {

// Storage and arithmetic type of weights and activations.
enum class DType : std::uint8_t { kF32, kBf16, kF16, kFp8, kInt8, kNvfp4 };
std::string_view to_string(DType dtype);
std::optional<DType> dtype_from(std::string_view name);
double bytes_of(DType dtype);  // of one element; 0.5 for nvfp4

struct Workload {
  int height = 0;      // pixels
  int width = 0;       // pixels
  int frames = 1;
  int text_rows = -1;  // -1: the model's default
  int reference_rows = 0;
  int batch = 1;
  int branches = 1;    // guidance forward passes a step (1: none or distilled)
  DType dtype = DType::kBf16;
  int quant_block = 0; // columns of one scale of a block-quantized weight; 0: none
  bool fused_adapters = false;  // adapters (LoRA) are added into the weights at load
  int steps = 50;
  std::optional<std::int64_t> seq_len;  // overrides the arithmetic: one packed stream of this many rows
};

struct StreamRows {
  std::string name;
  StreamKind kind = StreamKind::kPacked;
  std::int64_t rows = 0;
};

// The rows of a request, by stream, in packing order.
struct Rows {
  std::vector<StreamRows> streams;
  // Rows that self or joint attention sees (packed + joint), unpadded: the S of a plan.
  std::int64_t total() const;
  // Rows of the streams of one kind.
  std::int64_t of(StreamKind kind) const;
};

// Throws InputError, naming the nearest right values, when the model cannot take that size or that many
// frames ("frames 120: MiniMax-H3 takes 17k+5 frames; nearest 107 and 124").
Rows rows_of(const ModelSpec& model, const Workload& workload);

// The model's default request; flags then overwrite fields of it.
Workload default_workload(const ModelSpec& model);

}  // namespace hpplan
