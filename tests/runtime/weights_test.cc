// Which part of a weight a rank holds, and where its numbers come from.
#include "runtime/weights.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "planner/spec/error.h"

namespace hpplan::runtime {
namespace {

namespace fs = std::filesystem;
using Ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;

at::Tensor cut(const at::Tensor& whole, const Slice& slice) {
  if (slice.whole()) return whole;
  std::vector<at::Tensor> pieces;
  for (const auto& [begin, end] : slice.ranges)
    pieces.push_back(whole.slice(slice.dim, begin, end));
  return at::cat(pieces, slice.dim);
}

// BL-039: a fused gate|up of width 18432 at tp 2 takes both halves of each part, not one
// part.
TEST(Weights, BL039FusedRowsArePerPart) {
  const WeightSpec fused{"ff", {36864, 8}, Role::kColumn, {18432, 18432}};
  EXPECT_EQ(slice_of(fused, 2, 1).ranges, (Ranges{{9216, 18432}, {18432 + 9216, 36864}}));
  EXPECT_EQ(slice_of(fused, 2, 0).ranges, (Ranges{{0, 9216}, {18432, 27648}}));
}

// BL-038: q, k, v, gate and up in one weight; the local pieces of all ranks, un-permuted,
// are the original.
TEST(Weights, BL038GatherOfShardsIsTheOriginal) {
  const std::vector<std::int64_t> parts = {8, 4, 4, 12, 12};
  const WeightSpec spec{"fused", {40, 3}, Role::kColumn, parts};
  const at::Tensor whole = at::arange(120).reshape({40, 3});
  std::vector<std::vector<at::Tensor>> of_part(parts.size());
  for (int rank = 0; rank < 4; ++rank) {
    const at::Tensor local = cut(whole, slice_of(spec, 4, rank));
    std::int64_t at = 0;
    for (std::size_t p = 0; p < parts.size(); ++p) {
      of_part[p].push_back(local.slice(0, at, at + parts[p] / 4));
      at += parts[p] / 4;
    }
    EXPECT_EQ(at, local.size(0));
  }
  std::vector<at::Tensor> all;
  for (const auto& pieces : of_part) all.push_back(at::cat(pieces));
  EXPECT_TRUE(at::equal(at::cat(all), whole));
}

// BL-037: a row-parallel weight whose input is two parts side by side (attention 3072,
// MLP 12288).
TEST(Weights, BL037RowParallelColumnsFollowTheirParts) {
  const WeightSpec spec{"proj_out", {8, 15360}, Role::kRow, {3072, 12288}};
  EXPECT_EQ(slice_of(spec, 2, 0).ranges, (Ranges{{0, 1536}, {3072, 9216}}));
  EXPECT_EQ(slice_of(spec, 2, 1).ranges, (Ranges{{1536, 3072}, {9216, 15360}}));
  EXPECT_EQ(slice_of(spec, 2, 1).dim, 1);
}

// BL-041: by role, not by the tensor's number of dimensions.
TEST(Weights, BL041BiasesFollowTheirRole) {
  EXPECT_EQ(slice_of({"adaln.bias", {96768}, Role::kColumn}, 2, 1).ranges,
            (Ranges{{48384, 96768}}));
  EXPECT_TRUE(slice_of({"out.bias", {5376}, Role::kRow}, 2, 1).whole());
  EXPECT_TRUE(slice_of({"norm.weight", {5376}, Role::kReplicated}, 2, 1).whole());
}

TEST(Weights, SeededSliceIsASliceOfTheWhole) {
  const auto source = seeded_weights(11);
  for (const WeightSpec& spec :
       {WeightSpec{"a.weight", {24, 10}, Role::kColumn, {12, 12}},
        WeightSpec{"b.weight", {10, 24}, Role::kRow},
        WeightSpec{"a.bias", {24}, Role::kColumn}}) {
    const at::Tensor whole = source->read(spec, {}, at::kFloat);
    for (int rank = 0; rank < 3; ++rank) {
      const Slice slice = slice_of(spec, 3, rank);
      EXPECT_TRUE(at::equal(source->read(spec, slice, at::kFloat), cut(whole, slice)))
          << spec.name;
    }
  }
}

TEST(Weights, SeededValuesAreScaledAndDiffer) {
  const auto source = seeded_weights(1);
  const at::Tensor w = source->read({"x.weight", {400, 100}}, {}, at::kFloat);
  EXPECT_NEAR(w.mean().item<double>(), 0, 0.002);
  EXPECT_NEAR(w.std().item<double>(), 0.1, 0.002);
  EXPECT_FALSE(at::equal(w, source->read({"y.weight", {400, 100}}, {}, at::kFloat)));
  EXPECT_FALSE(
      at::equal(w, seeded_weights(2)->read({"x.weight", {400, 100}}, {}, at::kFloat)));
  EXPECT_NEAR(
      source->read({"norm1.weight", {4096}}, {}, at::kFloat).mean().item<double>(), 1,
      0.01);
  EXPECT_EQ(source->read({"x.weight", {4, 4}}, {}, at::kBFloat16).scalar_type(),
            at::kBFloat16);
}

class CheckpointReads : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(HPPLAN_BIN_DIR) / ("weights_test." + std::to_string(getpid()));
    fs::create_directories(folder_);
    write_safetensors((folder_ / "diffusion_pytorch_model.safetensors").string(),
                      {{"w", at::arange(48).reshape({6, 8}).to(at::kBFloat16)},
                       {"ids", at::arange(4)}});
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_;
};

TEST_F(CheckpointReads, OnlyTheSliceIsCopied) {
  const auto source = checkpoint_weights(folder_.string());
  const WeightSpec spec{"w", {6, 8}, Role::kRow};
  const at::Tensor shard = source->read(spec, slice_of(spec, 4, 2), at::kFloat);
  EXPECT_TRUE(
      at::equal(shard, at::arange(48).reshape({6, 8}).slice(1, 4, 6).to(at::kFloat)));
  EXPECT_EQ(source->bytes_read(), 6 * 2 * sizeof(std::uint16_t));
}

TEST_F(CheckpointReads, AnotherShapeOrTypeIsRefused) {
  const auto source = checkpoint_weights(folder_.string());
  const auto text = [&](const WeightSpec& spec) -> std::string {
    try {
      source->read(spec, {}, at::kFloat);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(text({"w", {8, 6}}).find("[8, 6] expected, the checkpoint has [6, 8]"),
            std::string::npos)
      << text({"w", {8, 6}});
  EXPECT_NE(text({"ids", {4}}).find("floating-point"), std::string::npos);
  EXPECT_NE(text({"v", {4}}).find("no such tensor"), std::string::npos);
}

}  // namespace
}  // namespace hpplan::runtime
