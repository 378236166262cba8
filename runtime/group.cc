#include "runtime/group.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "planner/spec/error.h"
#include "runtime/backend.h"

namespace hpplan::runtime {
namespace {

using Handle = c10::intrusive_ptr<c10d::Work>;

// The backend's own words, without its stack trace.
std::string words_of(const std::exception& e) {
  const auto* error = dynamic_cast<const c10::Error*>(&e);
  std::string text = error != nullptr ? error->what_without_backtrace() : e.what();
  return text.substr(0, text.find("\nException raised from"));
}

std::string shape_of(const at::Tensor& x) {
  return concat(c10::toString(x.scalar_type()), " ", x.sizes());
}

std::string list_of(const std::vector<std::int64_t>& numbers) {
  std::string text = "[";
  for (std::size_t i = 0; i < numbers.size(); ++i)
    text += concat(i == 0 ? "" : ", ", numbers[i]);
  return text + "]";
}

std::int64_t sum(const std::vector<std::int64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
}

}  // namespace

class Group::Impl {
 public:
  // One transfer of a grouped call.
  struct Transfer {
    int peer = 0;
    at::Tensor tensor;  // contiguous
  };

  Impl(std::string name, std::vector<int> members, int world_rank,
       const CommOptions& options, std::shared_ptr<Ledger> ledger)
      : name(std::move(name)),
        members(std::move(members)),
        world_rank(world_rank),
        options(options),
        ledger(std::move(ledger)) {
    const auto it = std::find(this->members.begin(), this->members.end(), world_rank);
    HP_CHECK(it != this->members.end(), "rank ", world_rank, " is not in ", this->name);
    rank = static_cast<int>(it - this->members.begin());
  }

  int size() const { return static_cast<int>(members.size()); }

  void connect(const Store& store) {
    // Groups of one axis have disjoint members, so axis and first member name a group.
    const std::string prefix = concat(name, "/", members[0]);
    keys = c10::make_intrusive<c10d::PrefixStore>(prefix, store.impl().handle);
    CollectiveRecord record = describe(Collective::kBarrier, 0);
    try {
      const bool nccl = options.backend == Backend::kNccl ||
                        (options.backend == Backend::kAuto && options.device >= 0);
      backend = nccl ? open_nccl(keys, rank, size(), options)
                     : open_gloo(keys, rank, size(), options);
      at::Tensor one = at::ones({1}, tensor_options());
      std::vector<at::Tensor> tensors{one};
      backend->allreduce(tensors)->wait(options.timeout);
      HP_CHECK(one.item<float>() == static_cast<float>(size()), name, ": ",
               one.item<float>());
    } catch (const InputError&) {
      throw;
    } catch (const std::exception& e) {
      throw CommError(world_rank, record, concat("did not open: ", words_of(e)));
    }
  }

  at::TensorOptions tensor_options() const {
    return at::TensorOptions(at::kFloat)
        .device(options.device < 0 ? at::Device(at::kCPU)
                                   : at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(
                                                               options.device)));
  }

  CollectiveRecord describe(Collective kind, std::uint64_t bytes) const {
    return {name, kind, sequence, members, bytes, {}, {}};
  }

  // Compares what the members are about to call, through the store, so that nothing is
  // sent when they differ. `call` says everything that must be equal: it is then seen for
  // the first time by all members in the same call.
  void agree(Collective kind, const std::string& call) {
    ++sequence;
    const std::string text = concat(to_string(kind), " of ", call);
    if (!seen.insert(text).second && options.checks == CheckCalls::kFirst) return;
    const auto key = [&](int member) { return concat("call/", sequence, "/", member); };
    keys->set(key(rank), text);
    for (int i = 0; i < size(); ++i) {
      if (i == rank) continue;
      const std::string who = concat("rank ", members[static_cast<std::size_t>(i)]);
      std::string theirs;
      try {
        keys->wait({key(i)}, options.timeout);
        theirs = keys->get_to_str(key(i));
      } catch (const std::exception&) {
        throw CommError(world_rank, describe(kind, 0),
                        concat(who, " did not say within ", options.timeout.count(),
                               " ms that it calls ", text));
      }
      if (theirs != text)
        throw CommError(world_rank, describe(kind, 0),
                        concat("this rank calls ", text, ", ", who, " calls ", theirs));
    }
  }

  // Sends and receives as one grouped call; empty tensors are left out on both sides.
  std::vector<Handle> exchange(const std::vector<Transfer>& sends,
                               const std::vector<Transfer>& receives) {
    std::vector<Handle> handles;
    const bool grouped = backend->supportsCoalescing();
    if (grouped) backend->startCoalescing();
    const auto issue = [&](const std::vector<Transfer>& list, bool send) {
      for (const Transfer& t : list) {
        if (t.tensor.numel() == 0) continue;
        HP_CHECK(t.tensor.is_contiguous(), shape_of(t.tensor));
        std::vector<at::Tensor> tensors{t.tensor};
        Handle handle =
            send ? backend->send(tensors, t.peer, 0) : backend->recv(tensors, t.peer, 0);
        if (!grouped) handles.push_back(std::move(handle));
      }
    };
    issue(receives, false);
    issue(sends, true);
    if (grouped) handles.push_back(backend->endCoalescing());
    return handles;
  }

  std::string name;
  std::vector<int> members;
  int world_rank = 0;
  int rank = 0;
  CommOptions options;
  std::shared_ptr<Ledger> ledger;
  StoreHandle keys;
  BackendHandle backend;
  std::int64_t sequence = 0;
  std::int64_t texts = 0;
  std::set<std::string> seen;
};

class Pending::Work {
 public:
  Work(std::shared_ptr<Group::Impl> group, CollectiveRecord record, std::int64_t entry,
       std::vector<Handle> handles, std::function<at::Tensor()> finish)
      : group_(std::move(group)),
        record_(std::move(record)),
        entry_(entry),
        handles_(std::move(handles)),
        finish_(std::move(finish)) {}
  // The backend may still write into our tensors: nobody leaves before it is done.
  ~Work() {
    for (const Handle& handle : handles_) {
      try {
        handle->wait(group_->options.timeout);
      } catch (const std::exception&) {
        // Whoever left without waiting is already failing for another reason.
      }
    }
  }

  at::Tensor wait() {
    try {
      while (!handles_.empty()) {
        handles_.back()->wait(group_->options.timeout);
        handles_.pop_back();
      }
    } catch (const std::exception& e) {
      handles_.clear();
      throw CommError(group_->world_rank, record_, words_of(e));
    }
    group_->ledger->end(entry_);
    return finish_();
  }

 private:
  std::shared_ptr<Group::Impl> group_;
  CollectiveRecord record_;
  std::int64_t entry_;
  std::vector<Handle> handles_;
  std::function<at::Tensor()> finish_;
};

Pending::Pending(std::shared_ptr<Work> work, at::Tensor result)
    : work_(std::move(work)), result_(std::move(result)) {}

at::Tensor Pending::wait() {
  if (work_) {
    result_ = work_->wait();
    work_.reset();
  }
  return result_;
}

Group Group::open(const std::string& name, std::vector<int> members, int world_rank,
                  const Store& store, const CommOptions& options,
                  std::shared_ptr<Ledger> ledger) {
  auto impl = std::make_shared<Impl>(name, std::move(members), world_rank, options,
                                     std::move(ledger));
  if (impl->size() > 1) impl->connect(store);
  return Group(std::move(impl));
}

int Group::size() const { return impl_ ? impl_->size() : 1; }
int Group::rank() const { return impl_ ? impl_->rank : 0; }
std::string Group::name() const { return impl_ ? impl_->name : ""; }
std::vector<int> Group::members() const {
  return impl_ ? impl_->members : std::vector<int>{0};
}

// Runs issue(), which returns the backend's handles, and enters the collective in the
// ledger. finish() makes the result once they are done; it owns every tensor in use.
template <class Issue, class Finish>
Pending Group::start(Collective kind, std::uint64_t bytes, Issue issue,
                     Finish finish) const {
  CollectiveRecord record = impl_->describe(kind, bytes);
  const std::int64_t entry = impl_->ledger->begin(record);
  try {
    std::vector<Handle> handles = issue();
    return {std::make_shared<Pending::Work>(impl_, std::move(record), entry,
                                            std::move(handles), std::move(finish)),
            {}};
  } catch (const std::exception& e) {
    throw CommError(impl_->world_rank, record, words_of(e));
  }
}

Pending Group::all_reduce_async(const at::Tensor& x, ReduceOp op) const {
  if (size() == 1) return Pending(x);
  impl_->agree(Collective::kAllReduce, shape_of(x));
  at::Tensor sum = x.contiguous();
  c10d::AllreduceOptions options;
  options.reduceOp = op == ReduceOp::kSum   ? c10d::ReduceOp::SUM
                     : op == ReduceOp::kMax ? c10d::ReduceOp::MAX
                                            : c10d::ReduceOp::MIN;
  const auto n = static_cast<std::uint64_t>(size());
  return start(
      Collective::kAllReduce, 2 * (n - 1) * sum.nbytes() / n,
      [&] {
        std::vector<at::Tensor> tensors{sum};
        return std::vector<Handle>{impl_->backend->allreduce(tensors, options)};
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
  return start(
      Collective::kAllGather, bytes,
      [&] {
        // Gloo's own gather passes parts on from rank to rank; sent each to all, a part
        // is one hop away, and lands where it belongs.
        if (even && impl_->backend->supportsCoalescing()) {
          at::Tensor flat = own.view({-1});
          return std::vector<Handle>{impl_->backend->all_gather_single(all, flat)};
        }
        std::vector<Impl::Transfer> sends, receives;
        for (int i = 0; i < size(); ++i) {
          if (i == rank()) continue;
          sends.push_back({i, own});
          receives.push_back({i, parts[static_cast<std::size_t>(i)]});
        }
        parts[static_cast<std::size_t>(rank())].copy_(own);
        return impl_->exchange(sends, receives);
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
  return start(
             Collective::kReduceScatter, (n - 1) * whole.nbytes() / n,
             [&] {
               return std::vector<Handle>{
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

Pending Group::all_to_all_async(const at::Tensor& x, const SizeTable& table) const {
  if (size() == 1) return Pending(x);
  HP_CHECK(static_cast<int>(table.size()) == size(), table.size(), " for ", size());
  std::vector<std::int64_t> send = table[static_cast<std::size_t>(rank())];
  std::vector<std::int64_t> receive;
  std::string rows;
  for (const auto& row : table) {
    HP_CHECK(static_cast<int>(row.size()) == size(), row.size(), " for ", size());
    receive.push_back(row[static_cast<std::size_t>(rank())]);
    rows += list_of(row);
  }
  HP_CHECK(x.size(0) == sum(send), x.sizes(), " of ", list_of(send));
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape[0] = -1;
  impl_->agree(Collective::kAllToAll,
               concat(c10::toString(x.scalar_type()), " ", list_of(shape), " by ", rows));
  at::Tensor in = x.contiguous();
  shape[0] = sum(receive);
  at::Tensor out = at::empty(shape, x.options());
  const auto kept = static_cast<std::uint64_t>(send[static_cast<std::size_t>(rank())]);
  const auto row_bytes =
      x.size(0) == 0 ? 0 : in.nbytes() / static_cast<std::uint64_t>(x.size(0));
  return start(
      Collective::kAllToAll, in.nbytes() - kept * row_bytes,
      [&] {
        return std::vector<Handle>{
            impl_->backend->all_to_all_single(out, in, receive, send)};
      },
      [in, out] { return out; });
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
  return start(
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
  return start(
             Collective::kBroadcast, (n - 1) * value.nbytes() / n,
             [&] {
               std::vector<at::Tensor> tensors{value};
               return std::vector<Handle>{impl_->backend->broadcast(tensors, options)};
             },
             [value] { return value; })
      .wait();
}

void Group::barrier() const {
  if (size() == 1) return;
  impl_->agree(Collective::kBarrier, "all");
  start(
      Collective::kBarrier, 0,
      [&] { return std::vector<Handle>{impl_->backend->barrier()}; },
      [] { return at::Tensor(); })
      .wait();
}

std::vector<std::string> Group::all_gather_text(const std::string& text) const {
  if (size() == 1) return {text};
  const std::string key = concat("text/", ++impl_->texts, "/");
  std::vector<std::string> all;
  impl_->keys->set(concat(key, rank()), text);
  for (int i = 0; i < size(); ++i) {
    try {
      impl_->keys->wait({concat(key, i)}, impl_->options.timeout);
    } catch (const std::exception&) {
      throw CommError(
          impl_->world_rank, impl_->describe(Collective::kAllGather, 0),
          concat("rank ", impl_->members[static_cast<std::size_t>(i)],
                 " sent no text within ", impl_->options.timeout.count(), " ms"));
    }
    all.push_back(impl_->keys->get_to_str(concat(key, i)));
  }
  return all;
}

}  // namespace hpplan::runtime
