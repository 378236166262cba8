// Whether ring p2p hides its transfers behind attention. Run by
// tests/support/limited_link.sh in a network namespace of its own whose loopback is slow,
// so that a transfer takes a time worth hiding.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "runtime/ring.h"
#include "tests/support/run_ranks.h"

namespace hpplan::runtime {
namespace {

double seconds(const std::function<void()>& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST(Overlap, RingHidesTransfersShorterThanTheAttentionOfABlock) {
  constexpr std::int64_t kRows = 3584, kHeads = 4, kHeadDim = 64;
  const Mesh grid = Mesh::from_order(Degrees::make(1, 2, 1), {Axis::kRing});
  run_ranks(
      grid, [](const DeviceMesh& mesh) {
        const Group& ring = mesh.group(Axis::kRing);
        at::manual_seed(mesh.rank());
        const at::Tensor q = at::randn({1, kRows, kHeads, kHeadDim});
        const at::Tensor kv = at::randn({kRows, 1, 2, kHeads, kHeadDim});
        const at::Tensor k = kv.select(2, 0).transpose(0, 1),
                         v = kv.select(2, 1).transpose(0, 1);
        RingOptions options;
        options.kernel = Kernel::kCpuFlash;
        options.scale = 0.125;

        // What a transfer takes when it is waited for, what a block's attention takes,
        // and how long the ring stood waiting: medians. A busy machine makes blocks
        // longer, and hides no less.
        std::vector<double> transfers, blocks, waits;
        for (int i = 0; i < 5; ++i) {
          ring.barrier();
          transfers.push_back(seconds([&] { (void)ring.shift(kv); }));
          blocks.push_back(
              seconds([&] { (void)attend(options.kernel, q, k, v, options.scale); }));
          ring.barrier();
          mesh.ledger().reset();
          (void)ring_attention(ring, {{q}}, k, v, RowSplit::uneven(2 * kRows, 2), {},
                               options);
          waits.push_back(mesh.ledger().waited_s().at("ring"));
        }
        const auto median = [](std::vector<double>& x) {
          std::sort(x.begin(), x.end());
          return x[x.size() / 2];
        };
        const double transfer = median(transfers), block = median(blocks),
                     wait = median(waits);
        std::printf(
            "rank %d: transfer %.1f ms, attention of a block %.1f ms, ring waits %.1f "
            "ms: %.0f %% hidden\n",
            mesh.rank(), transfer * 1e3, block * 1e3, wait * 1e3,
            (1 - wait / transfer) * 100);
        EXPECT_GT(transfer, 0.05)
            << "the link is not slow: run this through tests/support/limited_link.sh";
        EXPECT_LT(transfer, block);
        EXPECT_LE(wait, 0.2 * transfer);
      });
}

}  // namespace
}  // namespace hpplan::runtime
