// Communication kernels are verified by value when a group opens. This program brings its own backend: gloo, whose
// transfers from one rank can be made to lie.
#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <atomic>
#include <string>

#include "planner/spec/error.h"
#include "runtime/backend.h"
#include "tests/support/run_ranks.h"

namespace hpplan::runtime {
namespace {

enum class Lie { kNone, kSend, kBroadcast };
std::atomic<Lie> lie = Lie::kNone;
std::atomic<int> liar = -1;

class MaybeWrong final : public c10d::ProcessGroupGloo {
 public:
  MaybeWrong(const StoreHandle& store, int rank, int size, const CommOptions& how)
      : c10d::ProcessGroupGloo(store, rank, size, options(how)) {}

  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int to, int tag) override {
    return c10d::ProcessGroupGloo::send(altered(tensors, Lie::kSend), to, tag);
  }
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors, const c10d::BroadcastOptions& how) override {
    return c10d::ProcessGroupGloo::broadcast(altered(tensors, Lie::kBroadcast), how);
  }

 private:
  static c10::intrusive_ptr<Options> options(const CommOptions& how) {
    auto settings = Options::create(how.timeout);
    settings->threads = 1;
    settings->devices.push_back(createDeviceForInterface(how.interface));
    return settings;
  }
  // The last element is another one.
  std::vector<at::Tensor>& altered(std::vector<at::Tensor>& tensors, Lie kind) {
    if (lie != kind || getRank() != liar) return tensors;
    kept_.push_back(tensors[0].clone());
    kept_.back().view({-1})[tensors[0].numel() - 1] += 1;
    tensors[0] = kept_.back();
    return tensors;
  }
  std::vector<at::Tensor> kept_;
};

}  // namespace

BackendHandle open_gloo(const StoreHandle& store, int rank, int size, const CommOptions& options) {
  return c10::make_intrusive<MaybeWrong>(store, rank, size, options);
}

namespace {

// What each of three ranks heard when it opened its groups.
std::vector<std::string> heard(Lie what, int who) {
  lie = what;
  liar = who;
  std::vector<std::string> all(3);
  RankSettings settings;
  settings.collective_timeout = std::chrono::seconds(2);
  run_threads(
      3,
      [&](int rank, const Store& store) {
        try {
          const DeviceMesh mesh(Mesh::from_order(Degrees::make(3, 1, 1), {Axis::kTp}), rank, store, loopback(settings));
        } catch (const CommError& e) {
          all[static_cast<std::size_t>(rank)] = e.what();
        }
      },
      settings);
  return all;
}

TEST(Proof, BL163EveryKernelIsVerifiedByValueWhenAGroupOpens) {
  for (const std::string& said : heard(Lie::kNone, -1)) EXPECT_EQ(said, "");

  // Rank 1 sends a wrong number: whoever got it says which collective of which group gave what.
  const auto sent = heard(Lie::kSend, 1);
  bool named = false;
  for (const std::string& said : sent)
    named = named || (said.find("tp all_reduce") != std::string::npos &&
                      said.find("gives wrong values at the start: element 21 is ") != std::string::npos);
  EXPECT_TRUE(named) << sent[0] << "\n" << sent[1] << "\n" << sent[2];

  // The sum is right and the broadcast of the last rank is not.
  const auto cast = heard(Lie::kBroadcast, 2);
  EXPECT_NE(cast[0].find("tp broadcast"), std::string::npos) << cast[0];
  EXPECT_NE(cast[0].find("wrong values"), std::string::npos) << cast[0];
}

}  // namespace
}  // namespace hpplan::runtime
