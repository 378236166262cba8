// MiniMax-H3: text, audio and video rows in one packed sequence through one stack of
// blocks, each row modulated by a table row for its (noise level, modality). What does
// not change from step to step (text refinement, rotary tables, row layout) is done in
// prepare(); the modulation tables of all blocks are computed once a step, in one gather
// over tp. Outputs are computed for this rank's video and audio rows only.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/attention.h"
#include "runtime/device_mesh.h"
#include "runtime/models/h3_block.h"
#include "runtime/models/h3_config.h"
#include "runtime/models/h3_sequence.h"
#include "runtime/models/model.h"

namespace hpplan::runtime {

struct H3Options {
  at::ScalarType dtype = at::kFloat;  // of the block stack; patch projections, timestep
                                      // MLP and output heads stay fp32
  AttentionOptions attention;
  bool pad_rows = false;  // equal rows on every rank, the tail padded
};

class MiniMaxH3 final : public Model {
 public:
  MiniMaxH3(const H3Config& config, const DeviceMesh& mesh, WeightSource& weights,
            const H3Options& options);

  void prepare(const TensorMap& request) override;
  TensorMap step(const TensorMap& latents, const TensorMap& times) override;
  TensorMap local(const TensorMap& latents) const override;
  TensorMap gather(const TensorMap& latents) const override;
  LocalShape shape() const override;
  std::map<std::string, std::int64_t> expected_collectives() const override;
  std::int64_t weight_bytes() const override { return weight_bytes_; }
  TensorMap random_request(const Rows& rows, const Workload& workload,
                           std::uint64_t seed) const override;
  std::map<std::string, std::vector<std::int64_t>> latent_shapes() const override;

 private:
  struct Linear {
    at::Tensor weight, bias;
  };
  // Modulation of every block for one step, fp32 [layers, levels * 3, D]; norm weights
  // are folded in.
  struct Tables {
    at::Tensor scale1, shift1, gate1, scale2, shift2, gate2;
  };

  // [B, rows, text_dim] -> [B, rows, D]
  at::Tensor refine_text(const at::Tensor& text) const;
  // [levels] -> silu of [levels, time_dim], fp32
  at::Tensor embed_times(const at::Tensor& timestep) const;
  Tables modulation(const at::Tensor& activated) const;
  at::Tensor embed_rows(const TensorMap& latents) const;
  at::Tensor project_out(const at::Tensor& normed, const std::string& stream,
                         const Linear& head) const;

  H3Config config_;
  at::Device device_;
  Group tp_, sequence_group_;
  bool pad_rows_;
  at::ScalarType dtype_;
  Attention attend_, attend_text_;
  Linear video_in_, audio_in_, text_in_, time1_, time2_, norm_out_, video_out_,
      audio_out_;
  std::vector<H3Block> refiner_, blocks_;
  at::Tensor refiner_norm_, final_norm_;   // [D] fp32
  std::vector<Linear> adaln_;              // a block's slab of 18 * D rows, cut over tp
  std::vector<std::int64_t> adaln_slabs_;  // rows of every tp rank's slab
  at::Tensor norm1_, norm2_;               // [layers, 1, D] fp32
  std::int64_t weight_bytes_ = 0;
  std::optional<H3Sequence> sequence_;
  Rotary rotary_;
  at::Tensor text_rows_;  // [B, own text rows, D], of the prepared request
  std::int64_t batch_ = 0;
};

}  // namespace hpplan::runtime
