#include "runtime/models/h3_block.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

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

// The rows of heads [range) of a weight [heads * d, D]; zeros for those past the last.
at::Tensor rows_of_heads(const at::Tensor& weight, const Range& range, std::int64_t d) {
  const std::int64_t heads = weight.size(0) / d;
  const std::int64_t begin = std::min(range.begin, heads), end = std::min(range.end, heads);
  const at::Tensor real = weight.narrow(0, begin * d, (end - begin) * d);
  if (end - begin == range.size()) return real;
  return at::cat({real, at::zeros({(range.size() - (end - begin)) * d, weight.size(1)},
                                  weight.options())});
}

std::vector<ColumnLinear> fused_qkv(H3Loader& load, const std::string& prefix,
                                    const H3Config& c, const HeadSplit& heads) {
  const std::vector<std::int64_t> shape = {c.attention_width(), c.hidden};
  // By whole heads: tp divides heads, so the rows of a head stay together.
  const at::Tensor q = load.cut(prefix + "attn.to_q.weight", shape, Role::kColumn),
                   k = load.cut(prefix + "attn.to_k.weight", shape, Role::kColumn),
                   v = load.cut(prefix + "attn.to_v.weight", shape, Role::kColumn);
  std::vector<ColumnLinear> members;
  for (int i = 0; i < heads.degree(); ++i) {
    const Range &of_q = heads.q[static_cast<std::size_t>(i)],
                &of_kv = heads.kv[static_cast<std::size_t>(i)];
    members.emplace_back(at::cat({rows_of_heads(q, of_q, c.head_dim),
                                  rows_of_heads(k, of_kv, c.head_dim),
                                  rows_of_heads(v, of_kv, c.head_dim)}),
                         at::Tensor());
  }
  return members;
}

}  // namespace

H3Block::H3Block(H3Loader& load, const std::string& prefix, const H3Config& c,
                 const HeadSplit& heads)
    : head_dim_(c.head_dim),
      norm_eps_(c.norm_eps),
      qk_norm_eps_(c.qk_norm_eps),
      norm1_(load.norm(prefix + "norm1.weight", c.hidden)),
      norm2_(load.norm(prefix + "norm2.weight", c.hidden)),
      norm_q_(load.norm(prefix + "attn.norm_q.weight", c.head_dim)),
      norm_k_(load.norm(prefix + "attn.norm_k.weight", c.head_dim)),
      qkv_(fused_qkv(load, prefix, c, heads)),
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
  // Each member's heads are projected, normed and rotated where they are sent from: those
  // of the others first, and this rank's own while they travel.
  const at::Tensor flat = x.flatten(0, 1);
  const auto fill = [&](int member, const at::Tensor& section) {
    const HeadSplit& heads = attend.heads();
    const std::int64_t q = heads.q[static_cast<std::size_t>(member)].size(),
                       kv = heads.kv[static_cast<std::size_t>(member)].size();
    qkv_[static_cast<std::size_t>(member)].into(
        flat, section.view({flat.size(0), (q + 2 * kv) * head_dim_}));
    norm_rope(section.narrow(2, 0, q), norm_q_, qk_norm_eps_, rotary.cos, rotary.sin);
    norm_rope(section.narrow(2, q, kv), norm_k_, qk_norm_eps_, rotary.cos, rotary.sin);
  };
  return out_(attend.made(x.size(0), head_dim_, x.options(), rows, fill).flatten(2));
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
