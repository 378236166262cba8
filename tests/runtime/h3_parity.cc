#include "tests/runtime/h3_parity.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "runtime/weights.h"
#include "tests/support/run_ranks.h"

namespace hpplan::runtime {

std::vector<RankResult> run_forward(const H3Reference& reference, const Plan& plan) {
  std::vector<RankResult> results(plan.chosen.mesh.size());
  run_ranks(plan.chosen.mesh, [&](const DeviceMesh& mesh) {
    c10::InferenceMode inference;
    const auto weights = checkpoint_weights(reference.folder);
    const auto model = make_model(plan, mesh, *weights);
    model->prepare(reference.tensors);
    const TensorMap latents = model->local({{"video", reference.tensors.at("video")},
                                            {"audio", reference.tensors.at("audio")}});
    mesh.ledger().reset();
    const TensorMap velocity = model->step(latents, reference.tensors);
    RankResult& r = results[mesh.rank()];
    r.counted = mesh.ledger().counts();
    r.out = model->gather(velocity);
    r.shape = model->shape();
    r.expected = model->expected_collectives();
    r.weight_bytes = model->weight_bytes();
    r.bytes_read = weights->bytes_read();
  });
  return results;
}

Mesh mesh_with(int tp, int ring, int ulysses) {
  return Mesh::from_order(Degrees::make(tp, ring, ulysses),
                          {Axis::kTp, Axis::kUlysses, Axis::kRing});
}

std::string describe(const Plan& plan) {
  std::string ranks;
  for (const int r : plan.chosen.mesh.ranks()) ranks += " " + std::to_string(r);
  return plan.chosen.mesh.degrees().str() + " " +
         std::string(to_string(plan.chosen.ring_method)) + " heads " +
         std::string(to_string(plan.chosen.split.mode.policy)) + " rows " +
         std::string(to_string(plan.chosen.split.mode.rows)) + " ranks" + ranks;
}

void expect_parity(const H3Reference& reference, const Plan& plan) {
  SCOPED_TRACE(describe(plan));
  const std::vector<RankResult> results = run_forward(reference, plan);
  const Degrees& degrees = plan.chosen.mesh.degrees();
  std::int64_t rows = 0;
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    const RankResult& r = results[rank];
    for (const char* stream : {"video", "audio"}) {
      const double error = relative_l2(
          r.out.at(stream), reference.tensors.at(std::string(stream) + "_velocity"));
      EXPECT_LE(error, kTolerance) << stream << " on rank " << rank;
    }
    EXPECT_EQ(r.counted, r.expected) << "rank " << rank;
    EXPECT_EQ(r.shape.tp_heads, reference.config.heads / degrees.tp());
    rows += r.shape.real_rows;
  }
  if (plan.chosen.split.busiest_heads > 0) {
    int heads = 0;
    std::int64_t most_rows = 0;
    for (const RankResult& r : results) {
      heads = std::max(heads, r.shape.attention_heads);
      most_rows = std::max(most_rows, r.shape.rows);
    }
    EXPECT_EQ(heads, plan.chosen.split.busiest_heads);
    EXPECT_EQ(most_rows, plan.chosen.split.busiest_rows);
  }
  EXPECT_EQ(rows, reference.tensors.at("token_tags").size(0) * degrees.tp());
}

}  // namespace hpplan::runtime
