#include "runtime/models/h3_block.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include "runtime/models/fused_ops.h"

namespace hpplan::runtime {

H3Loader::H3Loader(WeightSource& source, const DeviceMesh& mesh, at::ScalarType dtype)
    : source_(source),
      tp_(mesh.group(Axis::kTp)),
      device_(mesh.device()),
      dtype_(dtype) {}

at::Tensor H3Loader::read(const WeightSpec& spec, const Slice& slice,
                          at::ScalarType dtype) {
  at::Tensor t = source_.read(spec, slice, dtype).to(device_);
  bytes_ += static_cast<std::int64_t>(t.nbytes());
  return t;
}

at::Tensor H3Loader::whole(const std::string& name, std::vector<std::int64_t> shape,
                           at::ScalarType dtype) {
  return read({name, std::move(shape)}, {}, dtype);
}

at::Tensor H3Loader::cut(const std::string& name, std::vector<std::int64_t> shape,
                         Role role, std::vector<std::int64_t> parts) {
  const WeightSpec spec{name, std::move(shape), role, std::move(parts)};
  return read(spec, slice_of(spec, tp_.size(), tp_.rank()), dtype_);
}

at::Tensor H3Loader::rows(const std::string& name, std::vector<std::int64_t> shape,
                          Range range) {
  return read({name, std::move(shape), Role::kColumn}, {0, {{range.begin, range.end}}},
              dtype_);
}

at::Tensor H3Loader::norm(const std::string& name, std::int64_t width) {
  return read({name, {width}}, {}, dtype_).to(at::kFloat);
}

namespace {

at::Tensor fused_qkv(H3Loader& load, const std::string& prefix, const H3Config& c) {
  const std::vector<std::int64_t> shape = {c.attention_width(), c.hidden};
  // By whole heads: tp divides heads, so the rows of a head stay together.
  return at::cat({load.cut(prefix + "attn.to_q.weight", shape, Role::kColumn),
                  load.cut(prefix + "attn.to_k.weight", shape, Role::kColumn),
                  load.cut(prefix + "attn.to_v.weight", shape, Role::kColumn)});
}

}  // namespace

H3Block::H3Block(H3Loader& load, const std::string& prefix, const H3Config& c)
    : local_heads_(c.heads / load.tp().size()),
      head_dim_(c.head_dim),
      norm_eps_(c.norm_eps),
      qk_norm_eps_(c.qk_norm_eps),
      norm1_(load.norm(prefix + "norm1.weight", c.hidden)),
      norm2_(load.norm(prefix + "norm2.weight", c.hidden)),
      norm_q_(load.norm(prefix + "attn.norm_q.weight", c.head_dim)),
      norm_k_(load.norm(prefix + "attn.norm_k.weight", c.head_dim)),
      qkv_(fused_qkv(load, prefix, c), {}),
      out_(load.tp(),
           load.cut(prefix + "attn.to_out.0.weight", {c.hidden, c.attention_width()},
                    Role::kRow),
           {}),
      up_gate_(load.cut(prefix + "ff.net.0.proj.weight", {2 * c.ffn, c.hidden},
                        Role::kColumn, {c.ffn, c.ffn}),
               {}),
      down_(load.tp(),
            load.cut(prefix + "ff.net.2.weight", {c.hidden, c.ffn}, Role::kRow), {}) {}

at::Tensor H3Block::attention(const at::Tensor& x, const Attention& attend,
                              const RowSplit& rows, const Rotary& rotary) const {
  const at::Tensor qkv = qkv_(x).view({x.size(0), x.size(1), 3, local_heads_, head_dim_});
  norm_rope(qkv.select(2, 0), norm_q_, qk_norm_eps_, rotary.cos, rotary.sin);
  norm_rope(qkv.select(2, 1), norm_k_, qk_norm_eps_, rotary.cos, rotary.sin);
  return out_(attend(qkv, rows).flatten(2));
}

at::Tensor H3Block::feed_forward(const at::Tensor& x) const {
  return down_(swiglu(up_gate_(x)));
}

at::Tensor H3Block::plain(const at::Tensor& x, const Attention& attend,
                          const RowSplit& rows) const {
  const at::Tensor y = x + attention(rms_norm(x, norm1_, norm_eps_), attend, rows, {});
  return y + feed_forward(rms_norm(y, norm2_, norm_eps_));
}

}  // namespace hpplan::runtime
