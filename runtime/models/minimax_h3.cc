#include "runtime/models/minimax_h3.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>

#include "planner/spec/error.h"
#include "runtime/models/h3_request.h"
#include "runtime/phases.h"

namespace hpplan::runtime {
namespace {

void check_shape(const TensorMap& tensors, const std::string& name, std::int64_t rows,
                 std::int64_t width, std::int64_t batch) {
  const at::Tensor& t = tensor_named(tensors, name);
  if (t.dim() != 3 || t.size(1) != rows || t.size(2) != width ||
      (batch > 0 && t.size(0) != batch)) {
    throw InputError({"request"}, name,
                     concat("[", batch > 0 ? std::to_string(batch) : "batch", ", ", rows,
                            ", ", width, "] expected, given ", t.sizes()));
  }
}

int local_heads(const H3Config& config, const Group& tp) {
  if (config.heads % tp.size() != 0) {
    throw InputError(
        concat("tp ", tp.size(), " does not divide ", config.heads, " heads"));
  }
  return static_cast<int>(config.heads) / tp.size();
}

// Rows `own` (ascending) of t [B, rows, width].
at::Tensor pick_rows(const at::Tensor& t, const std::vector<std::int64_t>& own) {
  std::vector<at::Tensor> pieces;
  for (std::size_t i = 0; i < own.size();) {
    std::size_t end = i + 1;
    while (end < own.size() && own[end] == own[end - 1] + 1) ++end;
    pieces.push_back(t.narrow(1, own[i], static_cast<std::int64_t>(end - i)));
    i = end;
  }
  if (pieces.empty()) return t.narrow(1, 0, 0);
  return pieces.size() == 1 ? pieces[0] : at::cat(pieces, 1);
}

}  // namespace

MiniMaxH3::MiniMaxH3(const H3Config& config, const DeviceMesh& mesh,
                     WeightSource& weights, const H3Options& options)
    : config_(config),
      device_(mesh.device()),
      tp_(mesh.group(Axis::kTp)),
      sequence_group_(mesh.sequence()),
      pad_rows_(options.pad_rows),
      dtype_(options.dtype),
      attend_(mesh.group(Axis::kUlysses), mesh.group(Axis::kRing),
              local_heads(config, tp_), local_heads(config, tp_), options.attention),
      attend_text_(Group(), Group(), local_heads(config, tp_), local_heads(config, tp_),
                   options.attention) {
  const H3Config& c = config_;
  H3Loader load(weights, mesh, dtype_);
  const auto linear = [&](const std::string& name, std::int64_t in, std::int64_t out,
                          at::ScalarType dtype) {
    return Linear{load.whole(name + ".weight", {out, in}, dtype),
                  load.whole(name + ".bias", {out}, dtype)};
  };
  video_in_ = linear("proj_in", c.video_channels(), c.hidden, at::kFloat);
  audio_in_ = linear("audio_proj_in", c.audio_channels, c.hidden, at::kFloat);
  text_in_ = linear("context_embedder", c.text_dim, c.hidden, dtype_);
  time1_ = linear("time_embedder.linear_1", c.freq_dim, c.time_hidden, at::kFloat);
  time2_ = linear("time_embedder.linear_2", c.time_hidden, c.time_dim, at::kFloat);
  for (std::int64_t i = 0; i < c.refiner_layers; ++i) {
    refiner_.emplace_back(load, concat("token_refiner.refiner_blocks.", i, "."), c,
                          attend_text_.heads());
  }
  refiner_norm_ = load.norm("token_refiner.final_norm.weight", c.hidden);
  // The modulation is gathered before it is chunked, so a slab may begin and end
  // anywhere; slabs are as equal as can be, and tp need not divide the width.
  const RowSplit slabs = RowSplit::uneven(c.adaln_width(), tp_.size());
  adaln_slabs_ = slabs.rows;
  const std::int64_t begin = slabs.begin(tp_.rank());
  const Range slab{begin, begin + slabs.rows[tp_.rank()]};
  std::vector<at::Tensor> norm1, norm2;
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string prefix = concat("transformer_blocks.", i, ".");
    blocks_.emplace_back(load, prefix, c, attend_.heads());
    adaln_.push_back(
        {load.rows(prefix + "adaln_proj.linear.weight", {c.adaln_width(), c.time_dim},
                   slab),
         load.rows(prefix + "adaln_proj.linear.bias", {c.adaln_width()}, slab)});
    norm1.push_back(blocks_.back().norm1().unsqueeze(0));
    norm2.push_back(blocks_.back().norm2().unsqueeze(0));
  }
  norm1_ = at::stack(norm1);
  norm2_ = at::stack(norm2);
  final_norm_ = load.norm("norm_out.norm.weight", c.hidden);
  norm_out_ = linear("norm_out.linear", c.time_dim, 2 * c.hidden, dtype_);
  video_out_ = linear("proj_out", c.hidden, c.video_channels(), at::kFloat);
  audio_out_ = linear("audio_proj_out", c.hidden, c.audio_channels, at::kFloat);
  weight_bytes_ = load.bytes();
}

void MiniMaxH3::prepare(const TensorMap& request) {
  sequence_.emplace(request, config_, sequence_group_.size(), sequence_group_.rank(),
                    pad_rows_);
  rotary_ = {sequence_->cos().to(device_), sequence_->sin().to(device_)};
  const StreamRowsOf& own = sequence_->stream("text");
  check_shape(request, "text", own.total, config_.text_dim, 0);
  const at::Tensor& text = tensor_named(request, "text");
  batch_ = text.size(0);
  // Text rows see each other only; ranks without any of them skip the refiner. Peers in a
  // tp group have the same rows, so they agree.
  text_rows_ =
      own.own.empty() ? at::Tensor() : pick_rows(refine_text(text.to(device_)), own.own);
}

at::Tensor MiniMaxH3::refine_text(const at::Tensor& text) const {
  at::Tensor x = at::linear(text.to(dtype_), text_in_.weight, text_in_.bias);
  const RowSplit rows = RowSplit::uneven(x.size(1), 1);
  for (const H3Block& block : refiner_) x = block.plain(x, attend_text_, rows);
  return rms_norm(x, refiner_norm_, config_.final_norm_eps);
}

at::Tensor MiniMaxH3::embed_times(const at::Tensor& timestep) const {
  const std::int64_t half = config_.freq_dim / 2;
  const at::Tensor exponent =
      at::arange(half, at::kFloat) * (-std::log(10000.0)) / static_cast<double>(half);
  const at::Tensor angles =
      timestep.to(at::kFloat).unsqueeze(1) * exponent.exp().unsqueeze(0);
  at::Tensor x = at::cat({angles.cos(), angles.sin()}, 1);
  x = at::silu(at::linear(x, time1_.weight, time1_.bias));
  return at::silu(at::linear(x, time2_.weight, time2_.bias));
}

MiniMaxH3::Tables MiniMaxH3::modulation(const at::Tensor& activated) const {
  const at::Tensor input = activated.to(dtype_);
  std::vector<at::Tensor> slabs;
  {
    const InPhase phase(Phase::kLinear);
    for (const Linear& linear : adaln_)
      slabs.push_back(at::linear(input, linear.weight, linear.bias));
  }
  const std::int64_t table_rows = activated.size(0) * kModalities;
  const at::Tensor all = tp_.all_gather(at::stack(slabs), 2, adaln_slabs_)
                             .view({config_.layers, table_rows, 6, config_.hidden})
                             .to(at::kFloat);
  const auto chunk = [&](int i) { return all.select(2, i).contiguous(); };
  return {(all.select(2, 1) + 1.0) * norm1_, chunk(0), chunk(2),
          (all.select(2, 4) + 1.0) * norm2_, chunk(3), chunk(5)};
}

at::Tensor MiniMaxH3::embed_rows(const TensorMap& latents) const {
  at::Tensor x =
      at::empty({batch_, sequence_->held(), config_.hidden}, text_in_.weight.options());
  if (sequence_->held() > sequence_->real()) {
    x.narrow(1, sequence_->real(), sequence_->held() - sequence_->real()).zero_();
  }
  const auto place = [&](const std::string& stream, const at::Tensor& rows) {
    for (const Piece& p : sequence_->stream(stream).pieces) {
      x.narrow(1, p.packed, p.count).copy_(rows.narrow(1, p.stream, p.count));
    }
  };
  const auto embed = [&](const std::string& stream, const Linear& in) {
    check_shape(latents, stream,
                static_cast<std::int64_t>(sequence_->stream(stream).own.size()),
                in.weight.size(1), batch_);
    if (!sequence_->stream(stream).own.empty()) {
      place(stream,
            at::linear(latents.at(stream).to(device_, at::kFloat), in.weight, in.bias));
    }
  };
  embed("video", video_in_);
  embed("audio", audio_in_);
  if (text_rows_.defined()) place("text", text_rows_);
  return x;
}

TensorMap MiniMaxH3::step(const TensorMap& latents, const TensorMap& times) {
  HP_CHECK(sequence_.has_value(), "step before prepare");
  const at::Tensor& timestep = tensor_named(times, "timestep");
  const at::Tensor& level_of_row = tensor_named(times, "timestep_indices");
  const std::int64_t levels = timestep.numel();
  const std::vector<Run> runs = sequence_->modulation_runs(level_of_row, levels);
  const at::Tensor activated = embed_times(timestep);
  const Tables t = modulation(activated);

  at::Tensor x = embed_rows(latents);
  at::Tensor normed =
      rms_norm_modulated(x, runs, t.scale1[0], t.shift1[0], config_.norm_eps);
  for (std::int64_t i = 0; i < config_.layers; ++i) {
    const H3Block& block = blocks_[i];
    normed =
        add_gated_norm(x, block.attention(normed, attend_, sequence_->split(), rotary_),
                       runs, t.gate1[i], t.scale2[i], t.shift2[i], config_.norm_eps);
    const at::Tensor mlp = block.feed_forward(normed);
    if (i + 1 < config_.layers) {
      normed = add_gated_norm(x, mlp, runs, t.gate2[i], t.scale1[i + 1], t.shift1[i + 1],
                              config_.norm_eps);
    } else {
      add_gated(x, mlp, runs, t.gate2[i]);
    }
  }

  const at::Tensor final_table =
      at::linear(activated.to(dtype_), norm_out_.weight, norm_out_.bias).to(at::kFloat);
  const at::Tensor scale =
      (final_table.narrow(1, config_.hidden, config_.hidden) + 1.0) * final_norm_;
  const at::Tensor shift = final_table.narrow(1, 0, config_.hidden).contiguous();
  normed =
      rms_norm_modulated(x.to(at::kFloat), sequence_->level_runs(level_of_row, levels),
                         scale, shift, config_.final_norm_eps);
  return {{"video", project_out(normed, "video", video_out_)},
          {"audio", project_out(normed, "audio", audio_out_)}};
}

at::Tensor MiniMaxH3::project_out(const at::Tensor& normed, const std::string& stream,
                                  const Linear& head) const {
  std::vector<at::Tensor> rows;
  for (const Piece& p : sequence_->stream(stream).pieces)
    rows.push_back(normed.narrow(1, p.packed, p.count));
  if (rows.empty()) return at::empty({batch_, 0, head.weight.size(0)}, at::kFloat);
  return at::linear(rows.size() == 1 ? rows[0] : at::cat(rows, 1), head.weight,
                    head.bias);
}

TensorMap MiniMaxH3::local(const TensorMap& latents) const {
  HP_CHECK(sequence_.has_value(), "local before prepare");
  TensorMap out;
  for (const auto& [name, tensor] : latents) {
    const StreamRowsOf& own = sequence_->stream(name);
    check_shape(latents, name, own.total, tensor.size(-1), batch_);
    out[name] = pick_rows(tensor, own.own).to(device_).contiguous();
  }
  return out;
}

TensorMap MiniMaxH3::gather(const TensorMap& latents) const {
  HP_CHECK(sequence_.has_value(), "gather before prepare");
  TensorMap out;
  for (const auto& [name, tensor] : latents) {
    std::vector<std::int64_t> sizes, order;
    for (int part = 0; part < sequence_group_.size(); ++part) {
      const std::vector<std::int64_t> own = sequence_->own_of(name, part);
      sizes.push_back(static_cast<std::int64_t>(own.size()));
      order.insert(order.end(), own.begin(), own.end());
    }
    const at::Tensor all =
        sequence_group_.all_gather(tensor.contiguous(), 1, sizes).to(at::kCPU);
    // Streams may lie in the sequence in another order than in their own tensor.
    out[name] =
        std::is_sorted(order.begin(), order.end())
            ? all
            : at::empty_like(all).index_copy_(1, at::tensor(order, at::kLong), all);
  }
  return out;
}

LocalShape MiniMaxH3::shape() const {
  HP_CHECK(sequence_.has_value(), "shape before prepare");
  const HeadSplit& heads = attend_.heads();
  const int rank = sequence_group_.rank() %
                   heads.degree();  // ulysses is the inner part of the sequence
  LocalShape s;
  s.rows = sequence_->held();
  s.real_rows = sequence_->real();
  s.first_row = sequence_->first();
  s.total_rows = sequence_->total();
  s.tp_heads = local_heads(config_, tp_);
  s.attention_heads = static_cast<int>(heads.q[rank].size());
  s.real_heads = heads.real_heads(rank);
  return s;
}

std::map<std::string, std::int64_t> MiniMaxH3::expected_collectives() const {
  std::map<std::string, std::int64_t> counts;
  for (const auto& [kind, count] : attend_.collectives())
    counts[kind] = count * config_.layers;
  if (tp_.size() > 1) {
    counts["tp/all_reduce"] = 2 * config_.layers;
    counts["tp/all_gather"] = 1;
  }
  return counts;
}

TensorMap MiniMaxH3::random_request(const Rows& rows, const Workload& workload,
                                    std::uint64_t seed) const {
  return h3_random_request(config_, rows, workload, seed);
}

std::map<std::string, std::vector<std::int64_t>> MiniMaxH3::latent_shapes() const {
  HP_CHECK(sequence_.has_value(), "latent_shapes before prepare");
  return {{"video", {batch_, sequence_->stream("video").total, config_.video_channels()}},
          {"audio", {batch_, sequence_->stream("audio").total, config_.audio_channels}}};
}

}  // namespace hpplan::runtime
