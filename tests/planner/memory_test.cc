// Memory by stage on published cases; every expected number is worked out beside it from
// the dimensions.
#include "planner/memory.h"

#include <gtest/gtest.h>

#include "planner/rules.h"
#include "tests/planner/problems.h"

namespace hpplan {
namespace {

constexpr double kMB = 1e6;

Bytes part(const MemoryEstimate& memory, const std::string& name) {
  for (const auto& [key, bytes] : memory.parts)
    if (key.rfind(name, 0) == 0) return bytes;
  return Bytes(-1);
}

MemoryEstimate memory_of(const Problem& problem, const Degrees& degrees,
                         RingMethod method = RingMethod::kP2p) {
  const auto split = split_of(problem, degrees, method);
  if (!split) throw std::runtime_error("illegal layout in a test: " + degrees.str());
  return estimate_memory(problem, degrees, method, *split);
}

double gib(Bytes bytes) { return bytes.value / kGiB; }

// 50 blocks * (2688 + 1) * 96768 = 13.01e9 modulation parameters: 24.2 GiB whole, 3.03
// GiB over tp 8. The rest of a block is 4*5376*7168 + 3*5376*14336: 19.27e9 in 50
// blocks, 4.49 GiB over tp 8.
TEST(Memory, BL048ModulationIsDividedOrNotByEngine) {
  Problem p = testing::problem_named("minimax-h3", "hgx-h200", "sglang");
  p.engine.adaln_divided = false;
  const MemoryEstimate whole = memory_of(p, Degrees::make(8, 1, 1));
  EXPECT_NEAR(gib(part(whole, "adaln")), 24.2, 0.1);
  p.engine.adaln_divided = true;
  const MemoryEstimate divided = memory_of(p, Degrees::make(8, 1, 1));
  EXPECT_NEAR(gib(part(divided, "adaln")), 24.2 / 8, 0.02);
  const double attention_and_mlp =
      50.0 * (4.0 * 5376 * 7168 + 3.0 * 5376 * 14336) * 2 / 8 / kGiB;
  EXPECT_NEAR(attention_and_mlp, 4.49, 0.01);
  // "weights" also holds what tp never divides: embeddings and norms, 1.6 GiB.
  EXPECT_NEAR(gib(part(divided, "weights")), attention_and_mlp + 1.6, 0.1);
  // Loader figures of the published TP sweep, a rank: 61.73, 30.86, 15.43, 7.72 GiB.
  for (const auto& [tp, stated] : {std::pair(1, 61.73), std::pair(2, 30.86),
                                   std::pair(4, 15.43), std::pair(8, 7.72)}) {
    const MemoryEstimate m = memory_of(p, Degrees::make(tp, 1, 1));
    EXPECT_NEAR(gib(part(m, "weights") + part(m, "adaln")), stated, 1.5) << tp;
  }
}

TEST(Memory, BL171EveryGroupCostsACommunicator) {
  Problem p = testing::problem_on(with_nodes(testing::topology_named("hgx-h200"), 2),
                                  "wan2.1-14b", "sglang");
  // Four groups of two, and the world of sixteen.
  EXPECT_NEAR(part(memory_of(p, Degrees::make(2, 2, 2, 2)), "communicators").value,
              (4 * 544 + 688) * kMB, 1);
  // One axis that is the whole world has one communicator, not two.
  EXPECT_NEAR(part(memory_of(p, Degrees::make(8, 1, 1)), "communicators").value,
              688 * kMB, 1);
  EXPECT_NEAR(part(memory_of(p, Degrees::make(2, 1, 1)), "communicators").value,
              544 * kMB, 1);
}

TEST(Memory, BL172AnAxisOfOneRankCostsNothing) {
  const Problem p = testing::problem_named("wan2.1-14b", "hgx-h200", "sglang");
  EXPECT_EQ(part(memory_of(p, Degrees::make(1, 1, 1)), "communicators").value, 0);
}

// A model whose weights are smaller than what a rank pays for its groups: tp 4 needs more
// than tp 2.
TEST(Memory, BL173PeaksNeedNotFallWithTheDegree) {
  Problem p = testing::problem_named("minimax-h3-tiny", "hgx-h200", "sglang");
  const Bytes one = memory_of(p, Degrees::make(1, 1, 1)).denoise,
              two = memory_of(p, Degrees::make(2, 1, 1)).denoise,
              four = memory_of(p, Degrees::make(4, 1, 1)).denoise;
  EXPECT_GT(two, one);
  EXPECT_GT(four, two);
  p.topology.device_memory = two + (four - two) * 0.5;
  EXPECT_TRUE(memory_of(p, Degrees::make(2, 1, 1)).fits());
  EXPECT_FALSE(memory_of(p, Degrees::make(4, 1, 1)).fits());
}

TEST(Memory, BL174EveryProcessHoldsTheEncoderInHostMemory) {
  Problem p = testing::problem_named("minimax-h3", "hgx-h200", "hprun");
  p.model.text_encoder.weights = Bytes(40e9);
  p.engine.components = ComponentPlace::kResident;
  p.engine.encoder_sharded = false;
  p.topology.host_memory = Bytes(128e9);
  const Degrees four = Degrees::make(4, 1, 1);
  const MemoryEstimate memory = memory_of(p, four);
  EXPECT_GE(memory.host.value, 4 * 40e9);
  bool refused = false;
  for (const Finding& finding : check_memory(p, four, RingMethod::kP2p, memory))
    refused |= finding.code == "memory-host";
  EXPECT_TRUE(refused);
  // Folded over the ranks it is there once.
  p.engine.encoder_sharded = true;
  EXPECT_LT(memory_of(p, four).host.value, 120e9);
}

TEST(Memory, BL175DecodeIsAStageOfItsOwn) {
  Problem p = testing::problem_named("minimax-h3", "hgx-h200", "sglang");
  p.model.decoder.activation = Bytes(100 * kGiB);
  const Degrees tp8 = Degrees::make(8, 1, 1);
  const MemoryEstimate memory = memory_of(p, tp8);
  EXPECT_GT(memory.decode, memory.denoise);
  EXPECT_EQ(memory.peak(), memory.decode);
  // Another process on the device takes from what is usable: 46.5 of 79.14 GB.
  p.topology.device_memory = Bytes(79.14e9);
  p.topology.device_reserved = Bytes(46.5e9);
  EXPECT_NEAR(memory_of(p, tp8).limit.value, 32.64e9, 1);
}

// 48 + 65 + 10 = 123 GiB of 115 usable, all resident. Elsewhere or one after the other it
// fits.
TEST(Memory, BL179EverythingResidentDoesNotFitUnifiedMemory) {
  Problem p = testing::problem_named("minimax-h3", "hgx-h200", "sglang");
  p.topology.device_memory = Bytes(115 * kGiB);
  p.topology.device_reserved = Bytes(0);
  p.model.text_encoder.weights = Bytes(48 * kGiB);
  p.model.decoder.weights = Bytes(10 * kGiB);
  p.engine.components = ComponentPlace::kResident;
  const Degrees one = Degrees::make(1, 1, 1);
  EXPECT_FALSE(memory_of(p, one).fits());
  EXPECT_GT(gib(memory_of(p, one).denoise), 61.7 + 48 + 10);
  p.engine.components = ComponentPlace::kHostWhenShort;
  EXPECT_TRUE(memory_of(p, one).fits());
}

// Published peaks of one engine: 100.3, 68.8, 70.6 and 94.4 GiB. Where the encoder stands
// is given: whole on two devices, a quarter on four and eight (what the peaks themselves
// ask for); what the engine keeps beside it is read from one row.
TEST(Memory, BL180PeaksWithin10PercentOnceResidencyIsGiven) {
  Problem p = testing::problem_named("minimax-h3", "hgx-h200", "vllm-omni");
  p.topology.device_memory = Bytes(141 * kGiB);
  p.engine.encoder_sharded = false;
  p.engine.components = ComponentPlace::kResident;
  struct Row {
    int tp, ulysses;
    double encoder_gib, peak_gib;
  };
  const Row rows[] = {{2, 1, 47.97, 100.3},
                      {2, 2, 47.97 / 4, 68.8},
                      {2, 4, 47.97 / 4, 70.6},
                      {1, 8, 47.97 / 4, 94.4}};
  const auto peak = [&](const Row& row) {
    p.model.text_encoder.weights = Bytes(row.encoder_gib * kGiB);
    return gib(memory_of(p, Degrees::make(row.tp, 1, row.ulysses)).denoise);
  };
  p.engine.memory_fixed = Bytes((rows[1].peak_gib - peak(rows[1])) * kGiB);
  EXPECT_GT(p.engine.memory_fixed.value, 0);
  for (const Row& row : rows)
    EXPECT_NEAR(peak(row) / row.peak_gib, 1, 0.1)
        << "tp" << row.tp << " u" << row.ulysses;
  // On 80 GiB cards tp2 x u4 is the answer: u8 holds whole weights.
  EXPECT_LT(peak(rows[2]), 80);
  EXPECT_GT(peak(rows[3]), 80);
}

// 50.86 GiB saved at degree 8 are 7/8 of 58.1.
TEST(Memory, BL181AFoldedEncoderIsDividedByItsRanks) {
  Problem p = testing::problem_named("minimax-h3", "hgx-h200", "sglang");
  p.model.text_encoder.weights = Bytes(50.86 * 8 / 7 * kGiB);
  p.engine.encoder_sharded = false;
  const Degrees u8 = Degrees::make(1, 1, 8);
  const double whole = gib(memory_of(p, u8).text);
  p.engine.encoder_sharded = true;
  EXPECT_NEAR(whole - gib(memory_of(p, u8).text), 50.86, 0.01);
}

// 314,437 rows, 7 heads of 128 left by ulysses 8, bf16: 2*S*7*128*2 B = 1.05 GiB gathered
// whatever the ring degree; two blocks of K and V on the way are 2/R of that.
TEST(Memory, BL182AGatherHoldsAllOfKAndVARingTwoBlocks) {
  Problem p = testing::problem_on(with_nodes(testing::topology_named("hgx-h200"), 8),
                                  "minimax-h3", "hprun");
  p.workload.seq_len = 314437;
  p.rows = rows_of(p.model, p.workload);
  for (const int ring : {2, 4, 8}) {
    const Degrees degrees = Degrees::make(1, ring, 8);
    EXPECT_NEAR(gib(part(memory_of(p, degrees, RingMethod::kAllGather), "kv")), 1.05,
                0.005)
        << ring;
    EXPECT_NEAR(gib(part(memory_of(p, degrees, RingMethod::kP2p), "kv")), 2 * 1.05 / ring,
                0.005)
        << ring;
  }
}

// 405 GB at 8 bits on one 80 GB device: no time, and the message says what would do.
TEST(Memory, BL184BL187WhatDoesNotFitSaysTheSmallestDegreeThatDoes) {
  Problem p = testing::problem_named("wan2.1-14b", "hgx-h100", "sglang");
  p.model.heads = p.model.kv_heads = 128;
  p.model.hidden = 16384;
  p.model.blocks[0].count = 126;
  p.model.blocks[0].mlp_width = 53248;
  p.model.blocks[0].cross_attention = false;
  p.model.blocks[0].mlp_gated = true;
  p.workload.seq_len = 1024;
  p.rows = rows_of(p.model, p.workload);
  p.workload.dtype = DType::kFp8;
  p.engine.components = ComponentPlace::kElsewhere;
  p.topology.device_memory = Bytes(80e9);
  // 126 * (4*16384^2 + 3*16384*53248) = 465e9 parameters: 5.8 devices of 80 GB at 8 bits.
  const Degrees one = Degrees::make(1, 1, 1);
  const auto findings = check_memory(p, one, RingMethod::kP2p, memory_of(p, one));
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings.front().severity, Severity::kError);
  EXPECT_NE(findings.front().suggestion.find("tp 8 is the smallest"), std::string::npos)
      << findings.front().suggestion;
  // At 16 bits that is tp 16, on a machine that has 8: said, not cut to 8.
  p.workload.dtype = DType::kBf16;
  const auto more = check_memory(p, one, RingMethod::kP2p, memory_of(p, one));
  ASSERT_FALSE(more.empty());
  EXPECT_NE(more.front().suggestion.find("tp 16 is the smallest"), std::string::npos)
      << more.front().suggestion;
  EXPECT_NE(more.front().suggestion.find("16 devices"), std::string::npos)
      << more.front().suggestion;
}

// 61.7 GiB of weights on a 32 and a 24 GB card: the smaller one bounds an equal share,
// and both together are too small.
TEST(Memory, BL194EqualSharesAreBoundByTheSmallestDevice) {
  Problem p = testing::problem_named("minimax-h3", "rtx5090-x8", "sglang");
  p.topology.device_memory = Bytes(24 * kGiB);
  p.engine.components = ComponentPlace::kElsewhere;
  const MemoryEstimate two = memory_of(p, Degrees::make(2, 1, 1));
  EXPECT_GT(gib(two.load), 30);
  EXPECT_FALSE(two.fits());
}

// The bf16 checkpoint lands before it is cut and quantized: published as a load failure
// of fp8 TP2 on 32 GB (30.9 GiB).
TEST(Memory, WholeCheckpointBeforeSharding) {
  Problem p = testing::problem_named("minimax-h3", "hgx-h200", "sglang");
  p.workload.dtype = DType::kFp8;
  p.engine.loads_before_sharding = false;
  const Degrees tp2 = Degrees::make(2, 1, 1);
  const MemoryEstimate cut = memory_of(p, tp2);
  p.engine.loads_before_sharding = true;
  const MemoryEstimate whole = memory_of(p, tp2);
  EXPECT_GT(gib(whole.load) - gib(cut.load), 30);
  EXPECT_EQ(whole.denoise, cut.denoise);
}

// Two experts, one after the other, both resident: twice the weights, the same
// activations.
TEST(Memory, AllExpertsAreResident) {
  Problem p = testing::problem_named("wan2.2-a14b", "hgx-h200", "sglang");
  ASSERT_EQ(p.model.transformers, 2);
  const Degrees u8 = Degrees::make(1, 1, 8);
  const MemoryEstimate two = memory_of(p, u8);
  p.model.transformers = 1;
  const MemoryEstimate one = memory_of(p, u8);
  EXPECT_NEAR(part(two, "weights").value, 2 * part(one, "weights").value, 1);
  EXPECT_EQ(part(two, "activations"), part(one, "activations"));
}

}  // namespace
}  // namespace hpplan
