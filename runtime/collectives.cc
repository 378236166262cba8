#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>

#include <algorithm>
#include <numeric>

#include "planner/spec/error.h"
#include "runtime/group.h"
#include "runtime/group_impl.h"

namespace hpplan::runtime {
namespace {

std::int64_t sum(const std::vector<std::int64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
}

// Over Gloo: every member owns a piece, gets it from all, sums it (16-bit types in fp32,
// rounded once) and sends it to all. Two hops, where the backend's own sum passes pieces
// on 2(n-1) times and rounds each time. In place.
Pending sum_by_owners(const std::shared_ptr<Group::Impl>& group, const at::Tensor& all,
                      ReduceOp op, std::uint64_t bytes) {
  const at::Tensor flat = all.view({-1});
  const std::int64_t each = (flat.numel() + group->size() - 1) / group->size();
  const auto me = static_cast<std::size_t>(group->rank);
  std::vector<at::Tensor> pieces, theirs;
  for (int i = 0; i < group->size(); ++i) {
    const std::int64_t begin = std::min(i * each, flat.numel());
    pieces.push_back(flat.narrow(0, begin, std::min(each, flat.numel() - begin)));
  }
  for (int i = 0; i < group->size(); ++i) theirs.push_back(at::empty_like(pieces[me]));
  return group->start(
      Collective::kAllReduce, bytes,
      [&] { return group->exchange_with_all(pieces, theirs); },
      [group, op, all, pieces, theirs, me] {
        const at::Tensor own = pieces[me];
        const bool half =
            own.scalar_type() == at::kBFloat16 || own.scalar_type() == at::kHalf;
        at::Tensor total = half ? own.to(at::kFloat) : own;
        for (std::size_t i = 0; i < theirs.size(); ++i) {
          if (i == me) continue;
          if (op == ReduceOp::kSum) {
            total.add_(theirs[i]);
          } else {
            const at::Tensor more = theirs[i].to(total.scalar_type());
            total.copy_(op == ReduceOp::kMax ? at::maximum(total, more)
                                             : at::minimum(total, more));
          }
        }
        if (half) own.copy_(total);
        for (const WorkHandle& handle : group->exchange_with_all(
                 std::vector<at::Tensor>(pieces.size(), own), pieces))
          handle->wait(group->options.timeout);
        return all;
      });
}

}  // namespace

Pending Group::all_reduce_async(const at::Tensor& x, ReduceOp op) const {
  if (size() == 1) return Pending(x);
  impl_->agree(Collective::kAllReduce, shape_of(x));
  at::Tensor sum = x.contiguous();
  const auto n = static_cast<std::uint64_t>(size());
  const std::uint64_t bytes = 2 * (n - 1) * sum.nbytes() / n;
  if (!impl_->grouped()) return sum_by_owners(impl_, sum, op, bytes);
  c10d::AllreduceOptions options;
  options.reduceOp = op == ReduceOp::kSum   ? c10d::ReduceOp::SUM
                     : op == ReduceOp::kMax ? c10d::ReduceOp::MAX
                                            : c10d::ReduceOp::MIN;
  return impl_->start(
      Collective::kAllReduce, bytes,
      [&] {
        std::vector<at::Tensor> tensors{sum};
        return std::vector<WorkHandle>{impl_->backend->allreduce(tensors, options)};
      },
      [sum] { return sum; });
}

at::Tensor Group::all_reduce(const at::Tensor& x, ReduceOp op) const {
  return all_reduce_async(x, op).wait();
}

at::Tensor Group::all_gather(const at::Tensor& x, std::int64_t dim) const {
  if (size() == 1) return x;
  return all_gather(
      x, dim, std::vector<std::int64_t>(static_cast<std::size_t>(size()), x.size(dim)));
}

at::Tensor Group::all_gather(const at::Tensor& x, std::int64_t dim,
                             const std::vector<std::int64_t>& sizes) const {
  return all_gather_async(x, dim, sizes).wait();
}

Pending Group::all_gather_async(const at::Tensor& x, std::int64_t dim,
                                const std::vector<std::int64_t>& sizes) const {
  if (size() == 1) return Pending(x);
  dim = dim < 0 ? dim + x.dim() : dim;
  HP_CHECK(static_cast<int>(sizes.size()) == size(), sizes.size(), " sizes for ", size());
  HP_CHECK(x.size(dim) == sizes[static_cast<std::size_t>(rank())], x.sizes(), " along ",
           dim);
  std::vector<std::int64_t> others = x.sizes().vec();
  others[static_cast<std::size_t>(dim)] = -1;
  impl_->agree(Collective::kAllGather, concat(c10::toString(x.scalar_type()), " ",
                                              list_of(others), " of ", list_of(sizes)));

  // Parts arrive one behind the other. They are the result itself where nothing lies
  // outside dim; else they are laid along dim afterwards.
  const at::Tensor own = x.contiguous();
  const std::int64_t outer = std::accumulate(x.sizes().begin(), x.sizes().begin() + dim,
                                             std::int64_t{1}, std::multiplies<>());
  const std::int64_t unit =
      x.size(dim) == 0
          ? std::accumulate(
                x.sizes().begin(), x.sizes().end(), std::int64_t{1},
                [](auto a, auto b) { return a * std::max<std::int64_t>(b, 1); })
          : x.numel() / x.size(dim);
  at::Tensor all = at::empty({sum(sizes) * unit}, x.options());
  std::vector<at::Tensor> parts;
  std::int64_t begin = 0;
  for (const std::int64_t rows : sizes) {
    std::vector<std::int64_t> shape = x.sizes().vec();
    shape[static_cast<std::size_t>(dim)] = rows;
    parts.push_back(all.narrow(0, begin, rows * unit).view(shape));
    begin += rows * unit;
  }
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape[static_cast<std::size_t>(dim)] = sum(sizes);
  const bool even = std::all_of(sizes.begin(), sizes.end(),
                                [&](std::int64_t s) { return s == sizes[0]; });
  const auto bytes = own.nbytes() * static_cast<std::uint64_t>(size() - 1);
  return impl_->start(
      Collective::kAllGather, bytes,
      [&] {
        // Gloo's own gather passes parts on from rank to rank; sent each to all, a part
        // is one hop away, and lands where it belongs.
        if (even && impl_->grouped()) {
          at::Tensor flat = own.view({-1});
          return std::vector<WorkHandle>{impl_->backend->all_gather_single(all, flat)};
        }
        parts[static_cast<std::size_t>(rank())].copy_(own);
        return impl_->exchange_with_all(std::vector<at::Tensor>(parts.size(), own),
                                        parts);
      },
      [own, all, parts, shape, outer, dim] {
        return outer == 1 ? all.view(shape) : at::cat(parts, dim);
      });
}

at::Tensor Group::reduce_scatter(const at::Tensor& x, std::int64_t dim) const {
  if (size() == 1) return x;
  HP_CHECK(x.size(dim) % size() == 0, x.sizes(), " along ", dim, " over ", size());
  impl_->agree(Collective::kReduceScatter, concat(shape_of(x), " along ", dim));
  at::Tensor whole = at::cat(x.chunk(size(), dim), 0);
  std::vector<std::int64_t> shape = whole.sizes().vec();
  shape[0] /= size();
  at::Tensor own = at::empty(shape, x.options());
  const auto n = static_cast<std::uint64_t>(size());
  return impl_
      ->start(
          Collective::kReduceScatter, (n - 1) * whole.nbytes() / n,
          [&] {
            return std::vector<WorkHandle>{
                impl_->backend->reduce_scatter_single(own, whole)};
          },
          [own, whole] { return own; })
      .wait();
}

at::Tensor Group::all_to_all(const at::Tensor& x) const {
  if (size() == 1) return x;
  HP_CHECK(x.size(0) % size() == 0, x.sizes(), " over ", size());
  const auto n = static_cast<std::size_t>(size());
  return all_to_all(x, SizeTable(n, std::vector<std::int64_t>(n, x.size(0) / size())));
}

at::Tensor Group::all_to_all(const at::Tensor& x, const SizeTable& table) const {
  return all_to_all_async(x, table).wait();
}

namespace {

// A rank's row and column of a table, and the table as text.
struct Sizes {
  std::vector<std::int64_t> send, receive;
  std::string text;
};
Sizes sizes_of(const SizeTable& table, int rank, int size) {
  HP_CHECK(static_cast<int>(table.size()) == size, table.size(), " for ", size);
  Sizes sizes{table[static_cast<std::size_t>(rank)], {}, {}};
  for (const auto& row : table) {
    HP_CHECK(static_cast<int>(row.size()) == size, row.size(), " for ", size);
    sizes.receive.push_back(row[static_cast<std::size_t>(rank)]);
    sizes.text += list_of(row);
  }
  return sizes;
}

}  // namespace

Pending Group::all_to_all_async(const at::Tensor& x, const SizeTable& table) const {
  if (size() == 1) return Pending(x);
  Sizes sizes = sizes_of(table, rank(), size());
  HP_CHECK(x.size(0) == sum(sizes.send), x.sizes(), " of ", list_of(sizes.send));
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape[0] = -1;
  impl_->agree(Collective::kAllToAll, concat(c10::toString(x.scalar_type()), " ",
                                             list_of(shape), " by ", sizes.text));
  at::Tensor in = x.contiguous();
  shape[0] = sum(sizes.receive);
  at::Tensor out = at::empty(shape, x.options());
  const auto kept =
      static_cast<std::uint64_t>(sizes.send[static_cast<std::size_t>(rank())]);
  const auto row_bytes =
      x.size(0) == 0 ? 0 : in.nbytes() / static_cast<std::uint64_t>(x.size(0));
  return impl_->start(
      Collective::kAllToAll, in.nbytes() - kept * row_bytes,
      [&] {
        if (impl_->grouped()) {
          return std::vector<WorkHandle>{
              impl_->backend->all_to_all_single(out, in, sizes.receive, sizes.send)};
        }
        const auto to = in.split_with_sizes(sizes.send),
                   from = out.split_with_sizes(sizes.receive);
        from[static_cast<std::size_t>(rank())].copy_(
            to[static_cast<std::size_t>(rank())]);
        return impl_->exchange_with_all(to, from);
      },
      [in, out] { return out; });
}

at::Tensor Group::all_to_all(const SizeTable& table, const at::TensorOptions& options,
                             const MakeSection& make) const {
  Sizes sizes = sizes_of(table, rank(), size());
  const auto me = static_cast<std::size_t>(rank());
  at::Tensor out = at::empty({sum(sizes.receive)}, options);
  const auto from = out.split_with_sizes(sizes.receive);
  if (size() == 1) {
    make(0, from[0]);
    return out;
  }
  impl_->agree(Collective::kAllToAll, concat(c10::toString(out.scalar_type()), " ",
                                             list_of({-1}), " by ", sizes.text));
  const bool grouped = impl_->grouped();
  at::Tensor in =
      at::empty({sum(sizes.send) - (grouped ? 0 : sizes.send[me])}, options);
  std::vector<at::Tensor> to;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < sizes.send.size(); ++i) {
    const bool in_place = i == me && !grouped;
    to.push_back(in_place ? from[me] : in.narrow(0, begin, sizes.send[i]));
    if (!in_place) begin += sizes.send[i];
  }
  const auto bytes = static_cast<std::uint64_t>(sum(sizes.send) - sizes.send[me]) *
                     out.element_size();
  return impl_
      ->start(
          Collective::kAllToAll, bytes,
          [&] {
            std::vector<WorkHandle> handles;
            std::vector<Group::Impl::Transfer> receives;
            for (std::size_t i = 0; i < from.size() && !grouped; ++i)
              if (i != me) receives.push_back({static_cast<int>(i), from[i]});
            const auto add = [&](std::vector<WorkHandle> more) {
              handles.insert(handles.end(), more.begin(), more.end());
            };
            if (!grouped) add(impl_->exchange({}, receives));
            // The next member first, so that not all begin with the same one.
            for (int step = 1; step <= size(); ++step) {
              const int member = (rank() + step) % size();
              const at::Tensor& section = to[static_cast<std::size_t>(member)];
              make(member, section);
              if (!grouped && member != rank()) add(impl_->exchange({{member, section}}, {}));
            }
            if (grouped)
              add({impl_->backend->all_to_all_single(out, in, sizes.receive, sizes.send)});
            return handles;
          },
          [in, out] { return out; })
      .wait();
}

at::Tensor Group::shift(const at::Tensor& x,
                        const std::vector<std::int64_t>& sizes) const {
  return shift_async(x, sizes).wait();
}

Pending Group::shift_async(const at::Tensor& x,
                           const std::vector<std::int64_t>& sizes) const {
  if (size() == 1) return Pending(x);
  std::vector<std::int64_t> shape = x.sizes().vec();
  if (!sizes.empty()) {
    HP_CHECK(static_cast<int>(sizes.size()) == size(), sizes.size(), " for ", size());
    HP_CHECK(shape[0] == sizes[static_cast<std::size_t>(rank())], x.sizes());
    shape[0] = -1;
  }
  impl_->agree(Collective::kShift, concat(c10::toString(x.scalar_type()), " ",
                                          list_of(shape), " of ", list_of(sizes)));
  const int next = (rank() + 1) % size();
  const int before = (rank() + size() - 1) % size();
  if (!sizes.empty()) shape[0] = sizes[static_cast<std::size_t>(before)];
  const at::Tensor out = x.contiguous();
  const at::Tensor in = at::empty(shape, x.options());
  return impl_->start(
      Collective::kShift, out.nbytes(),
      [&] {
        return impl_->exchange({{next, out}}, {{before, in}});
      },
      [out, in] { return in; });
}

at::Tensor Group::broadcast(const at::Tensor& x, int root) const {
  if (size() == 1) return x;
  HP_CHECK(root >= 0 && root < size(), "root ", root, " of ", size());
  impl_->agree(Collective::kBroadcast, concat(shape_of(x), " from ", root));
  at::Tensor value = x.contiguous();
  c10d::BroadcastOptions options;
  options.rootRank = root;
  const auto n = static_cast<std::uint64_t>(size());
  return impl_
      ->start(
          Collective::kBroadcast, (n - 1) * value.nbytes() / n,
          [&] {
            std::vector<at::Tensor> tensors{value};
            return std::vector<WorkHandle>{impl_->backend->broadcast(tensors, options)};
          },
          [value] { return value; })
      .wait();
}

void Group::barrier() const {
  if (size() == 1) return;
  impl_->agree(Collective::kBarrier, "all");
  impl_
      ->start(
          Collective::kBarrier, 0,
          [&] { return std::vector<WorkHandle>{impl_->backend->barrier()}; },
          [] { return at::Tensor(); })
      .wait();
}

}  // namespace hpplan::runtime
