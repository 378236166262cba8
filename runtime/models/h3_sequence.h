// H3Sequence: which rows of the packed sequence are this rank's, what they are, and what
// follows from their global numbers: rotary angles, modality, table row of the
// modulation. Rows are cut in contiguous runs, the first `total % parts` ranks holding
// one more. Rotary angles come from the rows' own positions, so a shard is the same
// numbers as the whole.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/models/fused_ops.h"
#include "runtime/models/h3_config.h"
#include "runtime/safetensors.h"
#include "runtime/split.h"

namespace hpplan::runtime {

// Consecutive rows of a stream's own tensor that lie consecutively in the packed
// sequence.
struct Piece {
  std::int64_t packed = 0;  // first row, local to this rank
  std::int64_t stream = 0;  // first row among this rank's rows of the stream
  std::int64_t count = 0;
};

// One stream ("video", "audio", "text") as a rank sees it.
struct StreamRowsOf {
  std::vector<std::int64_t> own;  // which rows of the global stream are here, ascending
  std::vector<Piece> pieces;      // where they lie
  std::int64_t total = 0;         // rows of the global stream
};

class H3Sequence {
 public:
  // request holds position_ids [S, 3], token_tags [S], video_indices, audio_indices,
  // text_indices. Throws InputError naming the tensor when one is missing, has another
  // shape, or the indices do not cover every row once. pad: every part
  // holds the same number of rows.
  H3Sequence(const TensorMap& request, const H3Config& config, int parts, int part,
             bool pad);

  std::int64_t total() const { return total_; }  // real rows of all parts
  const RowSplit& split() const { return split_; }
  std::int64_t first() const { return split_.begin(part_); }
  std::int64_t held() const { return split_.rows[part_]; }  // padding included
  std::int64_t real() const { return split_.valid[part_]; }
  const StreamRowsOf& stream(const std::string& name) const { return streams_.at(name); }
  // The rows that another part holds of a stream.
  std::vector<std::int64_t> own_of(const std::string& name, int part) const;

  // Rotary cos and sin of the held rows, [held, 3 * rope_freqs], fp32; no turn for
  // padding.
  const at::Tensor& cos() const { return cos_; }
  const at::Tensor& sin() const { return sin_; }

  // Runs of the held rows for this assignment of noise levels: table row = level * 3 +
  // modality.
  std::vector<Run> modulation_runs(const at::Tensor& timestep_indices,
                                   std::int64_t levels) const;
  // The same by noise level alone, for the final norm.
  std::vector<Run> level_runs(const at::Tensor& timestep_indices,
                              std::int64_t levels) const;

 private:
  std::vector<Run> runs(const at::Tensor& timestep_indices, std::int64_t levels,
                        bool by_modality) const;

  std::int64_t total_ = 0;
  RowSplit split_;
  int part_ = 0;
  std::map<std::string, StreamRowsOf> streams_;
  std::map<std::string, std::vector<std::int64_t>>
      indices_;                     // packed row of every row of a stream
  std::vector<std::int64_t> tags_;  // of all packed rows
  at::Tensor cos_, sin_;
};

// The named tensor, or InputError.
const at::Tensor& tensor_named(const TensorMap& tensors, const std::string& name);

}  // namespace hpplan::runtime
