#include "runtime/group.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "planner/spec/error.h"
#include "runtime/backend.h"
#include "runtime/group_impl.h"

namespace hpplan::runtime {
namespace {

// The backend's own words, without its stack trace.
std::string words_of(const std::exception& e) {
  const auto* error = dynamic_cast<const c10::Error*>(&e);
  std::string text = error != nullptr ? error->what_without_backtrace() : e.what();
  return text.substr(0, text.find("\nException raised from"));
}

}  // namespace

std::string shape_of(const at::Tensor& x) {
  return concat(c10::toString(x.scalar_type()), " ", x.sizes());
}

std::string list_of(const std::vector<std::int64_t>& numbers) {
  std::string text = "[";
  for (std::size_t i = 0; i < numbers.size(); ++i)
    text += concat(i == 0 ? "" : ", ", numbers[i]);
  return text + "]";
}

class Pending::Work {
 public:
  Work(std::shared_ptr<Group::Impl> group, CollectiveRecord record, std::int64_t entry,
       std::vector<WorkHandle> handles, std::function<at::Tensor()> finish)
      : group_(std::move(group)),
        record_(std::move(record)),
        entry_(entry),
        handles_(std::move(handles)),
        finish_(std::move(finish)) {}
  // The backend may still write into our tensors: nobody leaves before it is done.
  ~Work() {
    for (const WorkHandle& handle : handles_) {
      try {
        handle->wait(group_->options.timeout);
      } catch (const std::exception&) {
        // Whoever left without waiting is already failing for another reason.
      }
    }
  }

  at::Tensor wait() {
    const auto waiting = std::chrono::steady_clock::now();
    at::Tensor result;
    try {
      while (!handles_.empty()) {
        handles_.back()->wait(group_->options.timeout);
        handles_.pop_back();
      }
      result = finish_();
    } catch (const std::exception& e) {
      handles_.clear();
      throw CommError(group_->world_rank, record_, words_of(e));
    }
    group_->ledger->end(entry_, waiting);
    return result;
  }

 private:
  std::shared_ptr<Group::Impl> group_;
  CollectiveRecord record_;
  std::int64_t entry_;
  std::vector<WorkHandle> handles_;
  std::function<at::Tensor()> finish_;
};

Group::Impl::Impl(std::string name, std::vector<int> members, int world_rank,
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

void Group::Impl::connect(const Store& store) {
  // Groups of one axis have disjoint members, so axis and first member name a group.
  keys = c10::make_intrusive<c10d::PrefixStore>(concat(name, "/", members[0]),
                                                store.impl().handle);
  const at::Device device =
      options.device < 0
          ? at::Device(at::kCPU)
          : at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(options.device));
  try {
    const bool nccl = options.backend == Backend::kNccl ||
                      (options.backend == Backend::kAuto && options.device >= 0);
    backend = nccl ? open_nccl(keys, rank, size(), options)
                   : open_gloo(keys, rank, size(), options);
    const at::Tensor one = at::ones({1}, at::TensorOptions(at::kFloat).device(device));
    std::vector<at::Tensor> tensors{one};
    backend->allreduce(tensors)->wait(options.timeout);
  } catch (const InputError&) {
    throw;
  } catch (const std::exception& e) {
    throw CommError(world_rank, describe(Collective::kBarrier, 0),
                    concat("did not open: ", words_of(e)));
  }
}

void Group::Impl::prove() {
  // Not the caller's ledger: what is counted there is the model's.
  const std::shared_ptr<Ledger> real = std::exchange(ledger, std::make_shared<Ledger>());
  const at::Device device =
      options.device < 0
          ? at::Device(at::kCPU)
          : at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(options.device));
  agreeing = false;
  const Group group(shared_from_this());
  const int n = size();
  // Member i's vector for member j: 64 whole numbers that say who and for whom, small
  // enough for every sum of 4,096 to be exact in fp32.
  constexpr std::int64_t kWidth = 64;
  const auto values = [&](int from, int to) {
    return at::arange(kWidth, at::kFloat) +
           static_cast<double>((from * 31 + to * 17 + 5) % 61) * kWidth;
  };
  const auto check = [&](Collective kind, const at::Tensor& got, const at::Tensor& expected) {
    const at::Tensor here = got.to(at::kCPU).reshape({-1}), right = expected.reshape({-1});
    if (here.sizes() == right.sizes() && here.equal(right)) return;
    std::string what = concat("shape ", got.sizes(), " for ", expected.sizes());
    for (std::int64_t i = 0; here.sizes() == right.sizes() && i < right.numel(); ++i)
      if (here[i].item<float>() != right[i].item<float>()) {
        what = concat("element ", i, " is ", here[i].item<float>(), ", not ", right[i].item<float>());
        break;
      }
    throw CommError(world_rank, describe(kind, 0), concat("gives wrong values at the start: ", what));
  };
  std::vector<at::Tensor> to_all, from_all, of_all;
  at::Tensor sum = at::zeros({kWidth}, at::kFloat);
  for (int i = 0; i < n; ++i) {
    to_all.push_back(values(rank, i));
    from_all.push_back(values(i, rank));
    of_all.push_back(values(i, i));
    sum += of_all.back();
  }
  const auto on = [&](const at::Tensor& x) { return x.to(device); };
  const int before = (rank + n - 1) % n;
  const auto own = [&] { return on(of_all[static_cast<std::size_t>(rank)].clone()); };
  check(Collective::kAllReduce, group.all_reduce(own()), sum);
  check(Collective::kAllGather, group.all_gather(own(), 0), at::cat(of_all));
  check(Collective::kAllToAll, group.all_to_all(on(at::stack(to_all))), at::cat(from_all));
  check(Collective::kShift, group.shift(own()), of_all[static_cast<std::size_t>(before)]);
  check(Collective::kBroadcast, group.broadcast(own(), n - 1), of_all.back());
  ledger = real;
  agreeing = true;
  sequence = 0;
}

CollectiveRecord Group::Impl::describe(Collective kind, std::uint64_t bytes) const {
  return {name, kind, sequence, members, bytes, {}, {}};
}

void Group::Impl::agree(Collective kind, const std::string& call) {
  ++sequence;
  if (!agreeing) return;
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

std::vector<WorkHandle> Group::Impl::exchange(const std::vector<Transfer>& sends,
                                              const std::vector<Transfer>& receives) {
  std::vector<WorkHandle> handles;
  if (grouped()) backend->startCoalescing();
  const auto issue = [&](const std::vector<Transfer>& list, bool send) {
    for (const Transfer& t : list) {
      if (t.tensor.numel() == 0) continue;
      HP_CHECK(t.tensor.is_contiguous(), shape_of(t.tensor));
      std::vector<at::Tensor> tensors{t.tensor};
      WorkHandle handle =
          send ? backend->send(tensors, t.peer, 0) : backend->recv(tensors, t.peer, 0);
      if (!grouped()) handles.push_back(std::move(handle));
    }
  };
  issue(receives, false);
  issue(sends, true);
  if (grouped()) handles.push_back(backend->endCoalescing());
  return handles;
}

std::vector<WorkHandle> Group::Impl::exchange_with_all(
    const std::vector<at::Tensor>& mine, const std::vector<at::Tensor>& theirs) {
  std::vector<Transfer> sends, receives;
  for (int i = 0; i < size(); ++i) {
    if (i == rank) continue;
    sends.push_back({i, mine[static_cast<std::size_t>(i)]});
    receives.push_back({i, theirs[static_cast<std::size_t>(i)]});
  }
  return exchange(sends, receives);
}

Pending Group::Impl::start(Collective kind, std::uint64_t bytes,
                           const std::function<std::vector<WorkHandle>()>& issue,
                           std::function<at::Tensor()> finish) {
  CollectiveRecord record = describe(kind, bytes);
  const std::int64_t entry = ledger->begin(record);
  try {
    std::vector<WorkHandle> handles = issue();
    return {std::make_shared<Pending::Work>(shared_from_this(), std::move(record), entry,
                                            std::move(handles), std::move(finish)),
            {}};
  } catch (const std::exception& e) {
    throw CommError(world_rank, record, words_of(e));
  }
}

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
  if (impl->size() > 1) {
    impl->connect(store);
    impl->prove();
  }
  return Group(std::move(impl));
}

int Group::size() const { return impl_ ? impl_->size() : 1; }
int Group::rank() const { return impl_ ? impl_->rank : 0; }
std::string Group::name() const { return impl_ ? impl_->name : ""; }
std::vector<int> Group::members() const {
  return impl_ ? impl_->members : std::vector<int>{0};
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
