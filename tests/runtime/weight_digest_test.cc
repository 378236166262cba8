// What ranks loaded, compared: equal where it must be, different where it must be, and who is wrong is named by all.
#include "runtime/weight_digest.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <mutex>

#include "planner/spec/error.h"
#include "runtime/agreement.h"
#include "tests/support/run_ranks.h"

namespace hpplan::runtime {
namespace {

using namespace std::chrono_literals;

const WeightSpec kNorm{"norm.weight", {64}}, kUp{"up.weight", {256, 64}, Role::kColumn};

// What each rank heard; "" when all was well. shard_of and seed_of are what a rank takes, right or wrong.
std::vector<std::string> heard(const Mesh& mesh, const std::function<int(int)>& shard_of,
                               const std::function<std::uint64_t(int)>& seed_of) {
  std::vector<std::string> all(static_cast<std::size_t>(mesh.size()));
  std::mutex mutex;
  run_threads(mesh.size(), [&](int rank, const Store& store) {
    const auto seeded = seeded_weights(seed_of(rank));
    DigestingWeights weights(*seeded);
    weights.read(kNorm, {}, at::kFloat);
    weights.read(kUp, slice_of(kUp, mesh.degrees().tp(), shard_of(rank)), at::kFloat);
    std::string said;
    try {
      compare_weights(store, mesh, rank, weights, 20s);
    } catch (const InputError& e) {
      said = e.what();
    }
    const std::lock_guard lock(mutex);
    all[static_cast<std::size_t>(rank)] = said;
  });
  return all;
}

Mesh tp2_ulysses2() { return Mesh::from_order(Degrees::make(2, 1, 2), {Axis::kTp, Axis::kUlysses}); }

TEST(WeightDigest, EqualWhereItMustBeAndDifferentWhereItMustBe) {
  const Mesh mesh = tp2_ulysses2();
  for (const std::string& said :
       heard(mesh, [&](int r) { return mesh.coordinate(r, Axis::kTp); }, [](int) { return 1; }))
    EXPECT_EQ(said, "");
}

// Two hosts of one device each: the shard taken by the rank within the host is shard 0 on both.
TEST(WeightDigest, BL010AShardChosenByTheRankWithinAHostIsNamed) {
  const Mesh mesh = Mesh::from_order(Degrees::make(2, 1, 1), {Axis::kTp});
  for (const std::string& said : heard(mesh, [](int) { return 0; }, [](int) { return 1; }))
    EXPECT_NE(said.find("ranks 0 and 1 of one tp group hold the same shard"), std::string::npos) << said;
}

TEST(WeightDigest, AnotherCheckpointOnOneHostIsNamedWithItsTensor) {
  const Mesh mesh = tp2_ulysses2();
  for (const std::string& said : heard(mesh, [&](int r) { return mesh.coordinate(r, Axis::kTp); },
                                       [](int r) { return r == 3 ? 2 : 1; }))
    EXPECT_NE(said.find("and 3 must hold the same"), std::string::npos) << said;
}

TEST(WeightDigest, LooksAtAllOfALargeTensorsLength) {
  // A matrix of 4 MiB whose last row alone differs.
  class Last final : public WeightSource {
   public:
    explicit Last(float last) : last_(last) {}
    at::Tensor read(const WeightSpec& spec, const Slice&, at::ScalarType dtype) override {
      at::Tensor t = at::zeros(spec.shape, dtype);
      t[-1].fill_(last_);
      return t;
    }
    bool has(const std::string&) const override { return true; }
    std::uint64_t bytes_read() const override { return 0; }
    std::string config_path() const override { return ""; }
    std::string describe() const override { return "last"; }

   private:
    float last_;
  };
  Last a(1), b(2);
  DigestingWeights first(a), second(b);
  const WeightSpec large{"large.weight", {1024, 1024}};
  first.read(large, {}, at::kFloat);
  second.read(large, {}, at::kFloat);
  EXPECT_NE(first.whole(), second.whole());
}

TEST(Agreement, AnAbsentRankIsNamedByAllWhoCame) {
  run_threads(3, [&](int rank, const Store& store) {
    if (rank == 1) return;
    try {
      agree(store, "topic", rank, 3, "here", [](const auto&) { return std::string(); }, 300ms);
      ADD_FAILURE() << "rank 1 never came";
    } catch (const InputError& e) {
      EXPECT_NE(std::string(e.what()).find("rank 1 did not come"), std::string::npos) << e.what();
    }
  });
}

}  // namespace
}  // namespace hpplan::runtime
