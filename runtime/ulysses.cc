#include "runtime/ulysses.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <numeric>

#include "planner/spec/error.h"

namespace hpplan::runtime {
namespace {

// Heads [range) of x [B, n, heads, d] into `to`; those past the last head are zeros.
void copy_heads(const at::Tensor& x, const Range& range, at::Tensor to) {
  const std::int64_t real =
      std::max<std::int64_t>(0, std::min(range.end, x.size(2)) - range.begin);
  if (real > 0) to.narrow(2, 0, real).copy_(x.narrow(2, range.begin, real));
  if (real < range.size()) to.narrow(2, real, range.size() - real).zero_();
}

HeadsOfAllRows parts_of(const at::Tensor& slots, std::int64_t q, std::int64_t kv) {
  return {slots.narrow(2, 0, q), slots.narrow(2, q, kv), slots.narrow(2, q + kv, kv)};
}

// Sections one behind the other in `flat`, section i of shape [B, rows[i], heads[i], d],
// joined along `dim`; a view where they lie as the result would.
at::Tensor join(const at::Tensor& flat, std::int64_t batch,
                const std::vector<std::int64_t>& rows,
                const std::vector<std::int64_t>& heads, std::int64_t head_dim,
                std::int64_t dim) {
  if (dim == 1 && batch == 1)
    return flat.view({1, std::accumulate(rows.begin(), rows.end(), std::int64_t{0}),
                      heads[0], head_dim});
  std::vector<at::Tensor> sections;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::int64_t count = batch * rows[i] * heads[i] * head_dim;
    sections.push_back(
        flat.narrow(0, begin, count).view({batch, rows[i], heads[i], head_dim}));
    begin += count;
  }
  return at::cat(sections, dim);
}

}  // namespace

HeadsOfAllRows Ulysses::to_heads(const at::Tensor& q, const at::Tensor& k,
                                 const at::Tensor& v,
                                 const std::vector<std::int64_t>& rows) const {
  if (group_.size() == 1) return {q, k, v};
  HP_CHECK(rows.size() == group_.size() &&
               q.size(1) == rows[static_cast<std::size_t>(group_.rank())] &&
               q.size(2) == heads_.heads && k.size(2) == heads_.kv_heads,
           q.sizes(), " and ", k.sizes());
  return to_heads(q.size(0), q.size(3), q.options(), rows,
                  [&](int member, const at::Tensor& to) {
                    const Range &own_q = heads_.q[static_cast<std::size_t>(member)],
                                &own_kv = heads_.kv[static_cast<std::size_t>(member)];
                    const std::int64_t nq = own_q.size(), nkv = own_kv.size();
                    copy_heads(q, own_q, to.narrow(2, 0, nq));
                    copy_heads(k, own_kv, to.narrow(2, nq, nkv));
                    copy_heads(v, own_kv, to.narrow(2, nq + nkv, nkv));
                  });
}

HeadsOfAllRows Ulysses::to_heads(std::int64_t batch, std::int64_t head_dim,
                                 const at::TensorOptions& options,
                                 const std::vector<std::int64_t>& rows,
                                 const FillHeads& fill) const {
  const auto members = static_cast<std::size_t>(group_.size());
  const auto me = static_cast<std::size_t>(group_.rank());
  HP_CHECK(heads_.degree() == group_.size() && rows.size() == members, heads_.degree(),
           " head parts, ", rows.size(), " row parts, ", group_.size(), " ranks");
  // What one row of one request is to member j: its heads of q, then of k, then of v.
  std::vector<std::int64_t> slots;
  for (std::size_t j = 0; j < members; ++j)
    slots.push_back(heads_.q[j].size() + 2 * heads_.kv[j].size());
  SizeTable table(members);
  for (std::size_t i = 0; i < members; ++i)
    for (std::size_t j = 0; j < members; ++j)
      table[i].push_back(batch * rows[i] * slots[j] * head_dim);
  const at::Tensor flat =
      group_.all_to_all(table, options, [&](int member, const at::Tensor& section) {
        fill(member, section.view({batch, rows[me], slots[static_cast<std::size_t>(member)],
                                   head_dim}));
      });
  const at::Tensor all = join(flat, batch, rows,
                              std::vector<std::int64_t>(members, slots[me]), head_dim, 1);
  return parts_of(all, heads_.q[me].size(), heads_.kv[me].size());
}

at::Tensor Ulysses::to_rows(const at::Tensor& out,
                            const std::vector<std::int64_t>& rows) const {
  if (group_.size() == 1) return out;
  const auto members = static_cast<std::size_t>(group_.size());
  const auto me = static_cast<std::size_t>(group_.rank());
  const std::int64_t batch = out.size(0), head_dim = out.size(3);
  HP_CHECK(out.size(2) == heads_.q[me].size(), out.sizes());
  std::vector<std::int64_t> heads;
  for (const Range& q : heads_.q) heads.push_back(q.size());
  SizeTable table(members);
  for (std::size_t i = 0; i < members; ++i)
    for (std::size_t j = 0; j < members; ++j)
      table[i].push_back(batch * rows[j] * heads[i] * head_dim);

  at::Tensor packed;
  if (batch == 1) {
    packed = out.contiguous().view({-1});
  } else {
    std::vector<at::Tensor> sections;
    for (const at::Tensor& section : out.split_with_sizes(rows, 1))
      sections.push_back(section.reshape({-1}));
    packed = at::cat(sections);
  }
  const at::Tensor all =
      join(group_.all_to_all(packed, table), batch,
           std::vector<std::int64_t>(members, rows[me]), heads, head_dim, 2);
  return heads_.padded() ? all.narrow(2, 0, heads_.heads) : all;
}

HeadsOfAllRows Ulysses::own_heads(const at::Tensor& q, const at::Tensor& k,
                                  const at::Tensor& v) const {
  if (group_.size() == 1) return {q, k, v};
  const auto me = static_cast<std::size_t>(group_.rank());
  const auto own = [](const at::Tensor& x, const Range& range) {
    if (range.end <= x.size(2)) return x.narrow(2, range.begin, range.size());
    at::Tensor padded =
        at::empty({x.size(0), x.size(1), range.size(), x.size(3)}, x.options());
    copy_heads(x, range, padded);
    return padded;
  };
  return {own(q, heads_.q[me]), own(k, heads_.kv[me]), own(v, heads_.kv[me])};
}

at::Tensor Ulysses::gather_heads(const at::Tensor& out) const {
  if (group_.size() == 1) return out;
  std::vector<std::int64_t> heads;
  for (const Range& q : heads_.q) heads.push_back(q.size());
  const at::Tensor all = group_.all_gather(out, 2, heads);
  return heads_.padded() ? all.narrow(2, 0, heads_.heads) : all;
}

}  // namespace hpplan::runtime
