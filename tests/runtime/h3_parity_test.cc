// MiniMax-H3 against tensors of the public diffusers class, on one rank and on chosen
// meshes; all meshes are in h3_meshes_test. Ranks are threads of this process; every
// stream is compared on its own.
#include "tests/runtime/h3_parity.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "runtime/denoise.h"
#include "runtime/models/h3_request.h"
#include "runtime/weights.h"
#include "tests/support/run_ranks.h"

namespace hpplan::runtime {
namespace {

TEST(H3Parity, OneRank) {
  for (const char* name : {"h8", "h6", "h7", "h14"}) {
    const H3Reference reference(name);
    expect_parity(reference, plan_of(reference.config, Mesh::from_order({}, {})));
  }
}

TEST(H3Parity, Tp2Ulysses4) {
  const H3Reference reference("h8");
  expect_parity(reference, plan_of(reference.config, mesh_with(2, 1, 4)));
}

// 7 heads a tp rank on 4 ulysses ranks, held 2, 2, 2, 1 or padded to 8; 43 rows on 8
// parts, uneven or padded to 48; every combination, and with a ring beside.
TEST(H3Parity, PaddedAndUnevenHeadsAndRows) {
  const H3Reference reference("h14");
  for (const HeadPolicy heads : {HeadPolicy::kUneven, HeadPolicy::kPadAny}) {
    for (const RowPolicy rows : {RowPolicy::kUneven, RowPolicy::kPad}) {
      expect_parity(reference, plan_of(reference.config, mesh_with(2, 1, 4),
                                       RingMethod::kP2p, heads, rows));
      for (const RingMethod method : {RingMethod::kP2p, RingMethod::kAllGather}) {
        expect_parity(reference,
                      plan_of(reference.config, mesh_with(1, 2, 4), method, heads, rows));
      }
    }
  }
}

// The heads each rank computes are those of the plan, not what happens to give the right
// sum.
TEST(H3Parity, HeadsAndRowsAtHandAreThePlans) {
  const H3Reference reference("h14");
  const auto uneven =
      run_forward(reference, plan_of(reference.config, mesh_with(2, 1, 4)));
  std::vector<int> heads, rows;
  for (const RankResult& r : uneven) {
    heads.push_back(r.shape.attention_heads);
    rows.push_back(static_cast<int>(r.shape.rows));
  }
  EXPECT_EQ(heads, (std::vector<int>{2, 2, 2, 2, 2, 2, 1, 1}));  // tp is the inner axis
  EXPECT_EQ(rows, (std::vector<int>{11, 11, 11, 11, 11, 11, 10, 10}));
  const auto padded = run_forward(
      reference, plan_of(reference.config, mesh_with(2, 1, 4), RingMethod::kP2p,
                         HeadPolicy::kPadAny, RowPolicy::kPad));
  EXPECT_EQ(padded[6].shape.attention_heads, 2);
  EXPECT_EQ(padded[6].shape.real_heads, 1);
  EXPECT_EQ(padded[6].shape.rows, 11);
  EXPECT_EQ(padded[6].shape.real_rows, 10);
}

// BL-047: 18 * 48 modulation columns on 7 ranks end inside a chunk; chunking happens on
// the gathered output. BL-048: a tp rank holds its share of them and no more.
TEST(H3Parity, BL047BL048ModulationIsDividedOverTp) {
  const H3Reference reference("h7");
  const std::int64_t adaln = reference.config.layers * reference.config.adaln_width() *
                             (reference.config.time_dim + 1) * 4;
  ASSERT_NE(reference.config.adaln_width() % 7, 0);
  const std::int64_t whole =
      run_forward(reference, plan_of(reference.config, mesh_with(1, 1, 1)))[0]
          .weight_bytes;
  ASSERT_GT(adaln, whole / 5);
  const Plan plan = plan_of(reference.config, mesh_with(7, 1, 1));
  expect_parity(reference, plan);
  std::int64_t divided = 0;
  for (const RankResult& r : run_forward(reference, plan)) {
    EXPECT_LT(r.weight_bytes, whole - adaln * 5 / 7);
    divided += r.weight_bytes;
  }
  EXPECT_LT(divided, 7 * whole - 6 * adaln + 7);
}

// BL-010: the shard of a weight is chosen by the tp coordinate and rows by the sequence
// coordinate, never by the rank's number: any numbering of the grid gives the same
// result.
TEST(H3Parity, BL010AnyNumberingOfTheRanks) {
  const H3Reference reference("h8");
  const std::vector<int> devices = {0, 1, 2, 3, 4, 5, 6, 7};
  const std::vector<Axis> dims = {Axis::kTp, Axis::kUlysses, Axis::kRing};
  for (const std::vector<int>& ranks : {std::vector{5, 0, 7, 2, 1, 4, 3, 6},
                                        {7, 6, 5, 4, 3, 2, 1, 0},
                                        {0, 2, 4, 6, 1, 3, 5, 7}}) {
    expect_parity(reference, plan_of(reference.config,
                                     Mesh(Degrees::make(2, 2, 2), dims, ranks, devices)));
  }
}

// One step of a seeded model on a request with so many video rows, gathered.
TensorMap seeded_step(const H3Reference& reference, const Plan& plan,
                      std::int64_t video_rows) {
  TensorMap out;
  run_ranks(plan.chosen.mesh, [&](const DeviceMesh& mesh) {
    c10::InferenceMode inference;
    const auto weights = seeded_weights(5);
    const auto model = make_model(plan, mesh, *weights);
    Workload workload;
    const Rows rows{{{"text", StreamKind::kPacked, 3},
                     {"audio", StreamKind::kPacked, 2},
                     {"video", StreamKind::kPacked, video_rows}}};
    TensorMap inputs = model->random_request(rows, workload, 9);
    model->prepare(inputs);
    const TensorMap noise = initial_noise(model->latent_shapes(), 11);
    inputs.insert(noise.begin(), noise.end());
    const TensorMap times = h3_times(inputs, 0.25F, 0.75F, 1.0F);
    inputs.insert(times.begin(), times.end());
    const TensorMap velocity = model->forward(inputs);
    if (mesh.main()) out = velocity;
  });
  return out;
}

// BL-074, BL-077, BL-080: every remainder of the rows modulo the degree, the last row
// included, padded or not.
TEST(H3Parity, BL074BL077BL080EveryRemainderOfRows) {
  const H3Reference reference("h8");
  const Plan one = plan_of(reference.config, mesh_with(1, 1, 1));
  for (std::int64_t video_rows = 2; video_rows < 10; ++video_rows) {
    const TensorMap want = seeded_step(reference, one, video_rows);
    for (const Mesh& mesh :
         {mesh_with(1, 1, 4), mesh_with(1, 4, 1), mesh_with(1, 2, 2)}) {
      for (const RowPolicy rows : {RowPolicy::kUneven, RowPolicy::kPad}) {
        const TensorMap got = seeded_step(
            reference,
            plan_of(reference.config, mesh, RingMethod::kP2p, HeadPolicy::kUneven, rows),
            video_rows);
        for (const char* stream : {"video", "audio"}) {
          EXPECT_LE(relative_l2(got.at(stream), want.at(stream)), 1e-6)
              << stream << " " << video_rows << " rows on " << mesh.degrees().str();
          EXPECT_LE(
              relative_l2(got.at(stream).slice(1, -1), want.at(stream).slice(1, -1)),
              1e-5)
              << "last row";
        }
      }
    }
  }
}

// BL-099: noise is drawn once at global shape; what ranks hold of it is the same noise on
// every mesh.
TEST(H3Parity, BL099NoiseIsTheSameOnEveryMesh) {
  const H3Reference reference("h8");
  const std::map<std::string, std::vector<std::int64_t>> shapes = {{"video", {1, 26, 16}},
                                                                   {"audio", {1, 10, 6}}};
  const TensorMap noise = initial_noise(shapes, 3);
  EXPECT_FALSE(at::equal(noise.at("video"), initial_noise(shapes, 4).at("video")));
  for (const Mesh& mesh : {mesh_with(1, 1, 4), mesh_with(2, 3, 1)}) {
    const Plan plan = plan_of(reference.config, mesh);
    run_ranks(mesh, [&](const DeviceMesh& ranks) {
      const auto weights = checkpoint_weights(reference.folder);
      const auto model = make_model(plan, ranks, *weights);
      model->prepare(reference.loop_request());
      EXPECT_EQ(model->latent_shapes(), shapes);
      const TensorMap back = model->gather(model->local(initial_noise(shapes, 3)));
      for (const auto& [name, tensor] : noise)
        EXPECT_TRUE(at::equal(back.at(name), tensor)) << name;
    });
  }
}

// Bytes copied from the checkpoint are those of the rank's own shard.
TEST(H3Parity, BytesReadAreTheShards) {
  const H3Reference reference("h6");  // in four files
  for (const Mesh& mesh : {mesh_with(1, 1, 1), mesh_with(3, 1, 2), mesh_with(6, 1, 1)}) {
    for (const RankResult& r : run_forward(reference, plan_of(reference.config, mesh))) {
      EXPECT_LE(r.bytes_read, r.weight_bytes * 1.02);
      EXPECT_GE(r.bytes_read, static_cast<std::uint64_t>(r.weight_bytes));
    }
  }
}

// With the stack in bf16 and the class' fp32 parts kept, one device is no further from
// fp32 than diffusers is.
TEST(H3Parity, Bf16IsAsNearToFp32AsDiffusers) {
  for (const char* name : {"h8", "h6", "h7", "h14"}) {
    const H3Reference reference(name);
    const Plan plan = plan_of(reference.config, mesh_with(1, 1, 1), RingMethod::kP2p,
                              HeadPolicy::kUneven, RowPolicy::kUneven, DType::kBf16);
    const RankResult ours = run_forward(reference, plan)[0];
    for (const std::string stream : {"video", "audio"}) {
      const at::Tensor& fp32 = reference.tensors.at(stream + "_velocity");
      const double theirs =
          relative_l2(reference.tensors.at("bf16." + stream + "_velocity"), fp32);
      EXPECT_GT(theirs, 1e-3);
      EXPECT_LE(relative_l2(ours.out.at(stream), fp32), 1.1 * theirs)
          << name << " " << stream;
    }
  }
}

// In bf16 a mesh may not add more than half of what bf16 costs on one device.
TEST(H3Parity, Bf16StaysNearOneDevice) {
  for (const char* name : {"h8", "h14"}) {
    const H3Reference reference(name);
    const auto errors = [&](const Mesh& mesh, RingMethod method) {
      const Plan plan = plan_of(reference.config, mesh, method, HeadPolicy::kUneven,
                                RowPolicy::kUneven, DType::kBf16);
      std::map<std::string, double> of;
      for (const RankResult& r : run_forward(reference, plan)) {
        for (const char* stream : {"video", "audio"}) {
          of[stream] = std::max(
              of[stream],
              relative_l2(r.out.at(stream),
                          reference.tensors.at(std::string(stream) + "_velocity")));
        }
      }
      return of;
    };
    const auto one = errors(mesh_with(1, 1, 1), RingMethod::kP2p);
    EXPECT_GT(one.at("video"), 1e-4);  // bf16 it is
    for (const Mesh& mesh :
         {mesh_with(2, 1, 1), mesh_with(1, 4, 1), mesh_with(1, 1, 4), mesh_with(2, 2, 2),
          mesh_with(2, 1, 4), mesh_with(1, 2, 4)}) {
      for (const RingMethod method : {RingMethod::kP2p, RingMethod::kAllGather}) {
        for (const auto& [stream, error] : errors(mesh, method)) {
          EXPECT_LE(error, 1.5 * one.at(stream))
              << name << " " << mesh.degrees().str() << " " << stream;
        }
      }
    }
  }
}

TEST(H3Parity, DenoiseLoop) {
  const H3Reference reference("h8");
  for (const Mesh& mesh : {mesh_with(1, 1, 1), mesh_with(2, 2, 2), mesh_with(1, 1, 3)}) {
    const Plan plan = plan_of(reference.config, mesh);
    run_ranks(mesh, [&](const DeviceMesh& ranks) {
      const auto weights = checkpoint_weights(reference.folder);
      const auto model = make_model(plan, ranks, *weights);
      const TensorMap request = reference.loop_request();
      model->prepare(request);
      int steps = 0;
      DenoiseOptions options;
      options.steps = 5;
      options.condition_t = 0.97F;
      options.on_step = [&](int done, int total) {
        EXPECT_EQ(done, ++steps);
        EXPECT_EQ(total, 4);
      };
      const TensorMap out = denoise(*model, request, reference.loop_latents(), options);
      EXPECT_EQ(steps, 4);
      for (const std::string stream : {"video", "audio"}) {
        EXPECT_LE(relative_l2(out.at(stream)[0],
                              reference.tensors.at("loop." + stream + "_out")),
                  kTolerance)
            << stream;
      }
      // Conditioning rows are the request's, bit for bit.
      EXPECT_TRUE(at::equal(out.at("video")[0].narrow(0, 0, 3),
                            reference.tensors.at("loop.video_in").narrow(0, 0, 3)));
    });
  }
}

TEST(H3Parity, SchedulesAreThePublishedOnes) {
  const H3Reference reference("h8");
  for (const auto& [name, shift] :
       {std::pair<std::string, float>{"loop.video_sigmas", 12.0F},
        {"loop.audio_sigmas", 3.0F}}) {
    const std::vector<float> sigmas = sigma_grid(5, shift);
    EXPECT_TRUE(at::equal(at::tensor(sigmas), reference.tensors.at(name))) << name;
  }
}

}  // namespace
}  // namespace hpplan::runtime
