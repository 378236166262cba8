// Attention over a sequence that is cut by rows over ring x ulysses, and by heads over tp
// (already: a rank's heads are its own). Ulysses outside, ring inside: the exchange turns
// rows into heads within the ulysses group, K and V then travel round the ring group.
// Either group may have one rank; nothing below asks.
//
// Shapes: B batch, n rows of this part, N = rows of this ring block (all ulysses parts),
// h heads of this tp rank, h/U after the exchange, d head_dim.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "planner/spec/mesh.h"
#include "runtime/attention_kernels.h"
#include "runtime/group.h"
#include "runtime/split.h"
#include "runtime/ulysses.h"

namespace hpplan::runtime {

struct AttentionOptions {
  RingMethod ring_method = RingMethod::kP2p;
  UnevenHeads uneven_heads = UnevenHeads::kUneven;
  double scale = 0;     // of the scores; 0: 1/sqrt(head_dim)
  bool causal = false;  // a row sees itself and earlier rows; needs equal, whole parts
  std::optional<Kernel> kernel;  // empty: chosen for the device
};

// Replicated rows (text) that attend jointly with the sharded ones: the same tensors, [B,
// T, h, d], on every rank of the sequence group. Each joint key is counted once.
struct JointRows {
  at::Tensor q, k, v;
};

class Attention {
 public:
  Attention(Group ulysses, Group ring, int heads, int kv_heads, AttentionOptions options);

  // q [B, n, h, d], k and v [B, n, h_kv, d] -> [B, n, h, d]. Views with any strides; a
  // head's channels are contiguous. Padding rows come back as zeros.
  at::Tensor operator()(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const RowSplit& rows) const;
  // q, k and v made section by section for the members of the ulysses group, as
  // Ulysses::to_heads has them: the first sections travel while the others are made.
  at::Tensor made(std::int64_t batch, std::int64_t head_dim, const at::TensorOptions& options,
                  const RowSplit& rows, const Ulysses::FillHeads& fill) const;
  // q, k and v in one tensor [B, n, 3, h, d].
  at::Tensor operator()(const at::Tensor& qkv, const RowSplit& rows) const;

  // Sharded and replicated rows together: every query sees the real sharded keys and the
  // joint ones. The joint rows' output is whole and equal on every rank of the sequence
  // group. A joint row sees every joint and every sharded key, causal or not.
  struct Output {
    at::Tensor rows;   // [B, n, h, d]
    at::Tensor joint;  // [B, T, h, d]
  };
  Output joint(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
               const RowSplit& rows, const JointRows& joint) const;

  const HeadSplit& heads() const { return heads_; }
  // Collectives of one call on this rank, "ulysses/all_to_all" -> n.
  std::map<std::string, std::int64_t> collectives() const;

 private:
  // Rows of the blocks of the ring, and of the members of this ulysses group.
  struct Cut {
    RowSplit blocks;
    std::vector<std::int64_t> own;
  };
  Cut cut(const RowSplit& rows) const;
  Output run(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
             const RowSplit& rows, const JointRows& joint) const;
  Output inside(const Ulysses& exchange, const HeadsOfAllRows& all, const Cut& cut,
                const JointRows& joint) const;
  Kernel kernel_for(const at::Tensor& q, bool need_lse) const;

  Group ulysses_, ring_;
  AttentionOptions options_;
  HeadSplit heads_;
  using Kind = std::tuple<at::ScalarType, at::DeviceType, std::int64_t, bool>;
  mutable std::map<Kind, Kernel> chosen_;
};

}  // namespace hpplan::runtime
