#include "runtime/models/h3_sequence.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/zeros.h>

#include "planner/spec/error.h"

namespace hpplan::runtime {
namespace {

std::vector<std::int64_t> integers(const TensorMap& tensors, const std::string& name) {
  const at::Tensor& t = tensor_named(tensors, name);
  if (t.dim() != 1 || !at::isIntegralType(t.scalar_type(), false)) {
    throw InputError({"request"}, name, "a list of whole numbers expected");
  }
  const at::Tensor host = t.to(at::kCPU, at::kLong).contiguous();
  return {host.data_ptr<std::int64_t>(), host.data_ptr<std::int64_t>() + host.numel()};
}

}  // namespace

const at::Tensor& tensor_named(const TensorMap& tensors, const std::string& name) {
  const auto found = tensors.find(name);
  if (found != tensors.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& entry : tensors) known.push_back(entry.first);
  throw InputError({"request"}, name,
                   "this tensor is missing" + did_you_mean(name, known));
}

H3Sequence::H3Sequence(const TensorMap& request, const H3Config& config, int parts,
                       int part, bool pad)
    : part_(part) {
  const at::Tensor& positions = tensor_named(request, "position_ids");
  if (positions.dim() != 2 || positions.size(1) != 3) {
    throw InputError({"request"}, "position_ids",
                     concat("[rows, 3] expected, given ", positions.sizes()));
  }
  total_ = positions.size(0);
  if (total_ < parts) {
    throw InputError(
        {"request"}, "position_ids",
        concat(total_, " rows cannot be cut ", parts, " ways: every rank needs one"));
  }
  split_ = pad ? RowSplit::padded_to(total_, parts) : RowSplit::uneven(total_, parts);
  const std::int64_t begin = first(), end = begin + real();
  tags_ = integers(request, "token_tags");
  if (tags_.size() != total_) {
    throw InputError(
        {"request"}, "token_tags",
        concat(total_, " rows expected as in position_ids, given ", tags_.size()));
  }
  for (std::size_t row = 0; row < tags_.size(); ++row) {
    if (tags_[row] < 0 || tags_[row] >= kModalities) {
      throw InputError(
          {"request"}, "token_tags",
          concat("row ", row, ": 0 (video), 1 (text) or 2 (audio) expected, given ",
                 tags_[row]));
    }
  }

  std::vector<char> taken(total_, 0);
  for (const char* name : {"video", "audio", "text"}) {
    const std::string key = std::string(name) + "_indices";
    std::vector<std::int64_t> packed = integers(request, key);
    StreamRowsOf rows;
    rows.total = static_cast<std::int64_t>(packed.size());
    for (std::int64_t i = 0; i < rows.total; ++i) {
      const std::int64_t at = packed[i];
      if (at < 0 || at >= total_ || taken[at]) {
        throw InputError({"request"}, key,
                         concat("entry ", i, ": row ", at,
                                at < 0 || at >= total_ ? " is not in the sequence"
                                                       : " is taken already"));
      }
      taken[at] = 1;
      if (at < begin || at >= end) continue;
      const std::int64_t local = at - begin,
                         own = static_cast<std::int64_t>(rows.own.size());
      if (!rows.pieces.empty() &&
          rows.pieces.back().packed + rows.pieces.back().count == local) {
        ++rows.pieces.back().count;
      } else {
        rows.pieces.push_back({local, own, 1});
      }
      rows.own.push_back(i);
    }
    streams_[name] = std::move(rows);
    indices_[name] = std::move(packed);
  }
  for (std::int64_t row = 0; row < total_; ++row) {
    if (!taken[row])
      throw InputError({"request"}, "text_indices",
                       concat("row ", row, " of the sequence belongs to no stream"));
  }

  // Angles in fp32, as the class computes them: position times theta^(-i / freqs), three
  // axes side by side.
  at::Tensor own = at::zeros({held(), 3}, at::kFloat);
  own.narrow(0, 0, real()).copy_(positions.narrow(0, begin, real()));
  const std::int64_t f = config.rope_freqs;
  const at::Tensor exponent =
      at::arange(0, 2 * f, 2, at::kFloat) / static_cast<double>(2 * f);
  const at::Tensor inverse = at::pow(config.rope_theta, exponent).reciprocal();
  const at::Tensor angles = (own.unsqueeze(-1) * inverse).reshape({held(), 3 * f});
  cos_ = angles.cos();
  sin_ = angles.sin();
}

std::vector<std::int64_t> H3Sequence::own_of(const std::string& name, int part) const {
  const std::int64_t begin = split_.begin(part), end = begin + split_.valid[part];
  std::vector<std::int64_t> own;
  const std::vector<std::int64_t>& packed = indices_.at(name);
  for (std::size_t i = 0; i < packed.size(); ++i) {
    if (packed[i] >= begin && packed[i] < end)
      own.push_back(static_cast<std::int64_t>(i));
  }
  return own;
}

std::vector<Run> H3Sequence::modulation_runs(const at::Tensor& timestep_indices,
                                             std::int64_t levels) const {
  return runs(timestep_indices, levels, true);
}

std::vector<Run> H3Sequence::level_runs(const at::Tensor& timestep_indices,
                                        std::int64_t levels) const {
  return runs(timestep_indices, levels, false);
}

std::vector<Run> H3Sequence::runs(const at::Tensor& timestep_indices, std::int64_t levels,
                                  bool by_modality) const {
  const std::vector<std::int64_t> level =
      integers({{"timestep_indices", timestep_indices}}, "timestep_indices");
  if (level.size() != total_) {
    throw InputError({"request"}, "timestep_indices",
                     concat(total_, " rows expected, given ", level.size()));
  }
  std::vector<Run> out;
  const std::int64_t begin = first();
  for (std::int64_t row = begin; row < begin + real(); ++row) {
    if (level[row] < 0 || level[row] >= levels) {
      throw InputError({"request"}, "timestep_indices",
                       concat("row ", row, ": one of ", levels,
                              " timesteps expected, given ", level[row]));
    }
    const std::int64_t at =
        by_modality ? level[row] * kModalities + tags_[row] : level[row];
    const std::int64_t local = row - begin;
    if (!out.empty() && out.back().table_row == at) {
      out.back().end = local + 1;
    } else {
      out.push_back({local, local + 1, at});
    }
  }
  if (held() > real())
    out.push_back({real(), held(), 0});  // padding is computed and thrown away
  return out;
}

}  // namespace hpplan::runtime
