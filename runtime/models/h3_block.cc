#include "runtime/models/h3_block.h"

#include <ATen/ops/cat.h>

namespace hpplan::runtime {
namespace {

class Loader {
 public:
  Loader(WeightSource& source, std::string prefix, int tp, int tp_rank,
         at::ScalarType dtype)
      : source_(source),
        prefix_(std::move(prefix)),
        tp_(tp),
        tp_rank_(tp_rank),
        dtype_(dtype) {}

  at::Tensor cut(const std::string& name, std::vector<std::int64_t> shape, Role role,
                 std::vector<std::int64_t> parts = {}) const {
    const WeightSpec spec{prefix_ + name, std::move(shape), role, std::move(parts)};
    return source_.read(spec, slice_of(spec, tp_, tp_rank_), dtype_);
  }
  // Norm weights enter fp32 arithmetic, rounded as the stack's dtype has them.
  at::Tensor norm(const std::string& name, std::int64_t width) const {
    return source_.read({prefix_ + name, {width}}, {}, dtype_).to(at::kFloat);
  }

 private:
  WeightSource& source_;
  std::string prefix_;
  int tp_, tp_rank_;
  at::ScalarType dtype_;
};

}  // namespace

H3BlockWeights load_h3_block(WeightSource& source, const std::string& prefix,
                             const H3Config& c, int tp, int tp_rank,
                             at::ScalarType dtype) {
  const Loader load(source, prefix, tp, tp_rank, dtype);
  const std::int64_t a = c.attention_width();
  H3BlockWeights w;
  w.norm1 = load.norm("norm1.weight", c.hidden);
  w.norm2 = load.norm("norm2.weight", c.hidden);
  w.qkv = at::cat({load.cut("attn.to_q.weight", {a, c.hidden}, Role::kColumn),
                   load.cut("attn.to_k.weight", {a, c.hidden}, Role::kColumn),
                   load.cut("attn.to_v.weight", {a, c.hidden}, Role::kColumn)});
  w.norm_q = load.norm("attn.norm_q.weight", c.head_dim);
  w.norm_k = load.norm("attn.norm_k.weight", c.head_dim);
  w.out = load.cut("attn.to_out.0.weight", {c.hidden, a}, Role::kRow);
  w.up_gate = load.cut("ff.net.0.proj.weight", {2 * c.ffn, c.hidden}, Role::kColumn,
                       {c.ffn, c.ffn});
  w.down = load.cut("ff.net.2.weight", {c.hidden, c.ffn}, Role::kRow);
  return w;
}

}  // namespace hpplan::runtime
