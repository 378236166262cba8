// The exchange of sequence parallelism by heads: rows for heads before attention, and
// back after it. Q, K and V go in one all-to-all. Heads and rows may be uneven; KV heads
// may be fewer than ranks, and are then sent to every rank that needs them.
//
// Shapes: B batch, n rows of this part, N rows of all parts of the group, h heads of this
// tp rank, d head_dim.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "runtime/group.h"
#include "runtime/split.h"

namespace hpplan::runtime {

struct HeadsOfAllRows {
  at::Tensor q;     // [B, N, q heads of this rank, d]
  at::Tensor k, v;  // [B, N, KV heads of this rank, d]
};

class Ulysses {
 public:
  Ulysses(Group group, HeadSplit heads)
      : group_(std::move(group)), heads_(std::move(heads)) {}

  // rows[i]: rows of member i. q [B, n, h, d], k and v [B, n, h_kv, d] -> this rank's
  // heads of all rows; padding heads are zeros.
  HeadsOfAllRows to_heads(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const std::vector<std::int64_t>& rows) const;
  // The same where q, k and v are made for what they are sent to: fill(i, section) makes
  // member i's part of this rank's rows, [B, n, its q heads + 2 * its KV heads, d], heads of
  // q before those of k and of v, padding heads (zeros) with them.
  using FillHeads = std::function<void(int member, const at::Tensor& section)>;
  HeadsOfAllRows to_heads(std::int64_t batch, std::int64_t head_dim,
                          const at::TensorOptions& options,
                          const std::vector<std::int64_t>& rows,
                          const FillHeads& fill) const;
  // [B, N, q heads of this rank, d] -> [B, n, h, d], without padding heads.
  at::Tensor to_rows(const at::Tensor& out, const std::vector<std::int64_t>& rows) const;

  // This rank's heads of rows that every rank holds (no communication), and back: [B, T,
  // q heads of this rank, d] -> [B, T, h, d] on every rank.
  HeadsOfAllRows own_heads(const at::Tensor& q, const at::Tensor& k,
                           const at::Tensor& v) const;
  at::Tensor gather_heads(const at::Tensor& out) const;

  const HeadSplit& heads() const { return heads_; }

 private:
  Group group_;
  HeadSplit heads_;
};

}  // namespace hpplan::runtime
