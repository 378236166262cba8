// GEMM, attention and collective times against numbers worked out by hand.
#include "planner/compute.h"

#include <gtest/gtest.h>

#include <cmath>

#include "planner/collectives.h"

namespace hpplan {
namespace {

// 100 TFLOP/s, 1 TB/s, 100 units; half a GEMM's peak, no losses for narrow shapes unless
// a test sets them.
DeviceRates device() {
  DeviceRates d;
  d.peak_bf16 = FlopsPerSecond(100e12);
  d.peak_fp8 = FlopsPerSecond(200e12);
  d.memory_bandwidth = BytesPerSecond(1e12);
  d.memory_efficiency = 0.8;
  d.units = 100;
  d.gemm = {.emax = 0.5, .m0 = 0, .n0 = 0, .k0 = 0};
  d.gemm_fp8 = {.emax = 0.5, .m0 = 0, .n0 = 1000, .k0 = 0};
  d.attention = {
      .emax_d64 = 0.4, .emax_d80 = 0.5, .emax_d128 = 0.8, .tile_rows = 128, .kv0 = 0};
  d.attention_fa2 = d.attention;
  return d;
}

constexpr double kStart = 3e-6;

TEST(Gemm, ComputeBound) {
  // 2 * 4096^3 = 137.4 GFLOP at 50 TFLOP/s: 2748.8 us.
  EXPECT_NEAR(gemm_time(device(), DType::kBf16, 4096, 4096, 4096).value,
              2748.78e-6 + kStart, 1e-8);
}

TEST(Gemm, MemoryBound) {
  // One row through 4096 x 4096 bf16: 2 * (4096 + 4096^2) + 2 * 4096 B = 33.57 MB at 800
  // GB/s: 41.96 us.
  EXPECT_NEAR(gemm_time(device(), DType::kBf16, 1, 4096, 4096).value, 41.96e-6 + kStart,
              2e-8);
}

TEST(Gemm, NarrowShardsLoseMoreInFp8) {
  DeviceRates d = device();
  d.gemm.n0 = 100;
  const auto slowdown = [&](DType dtype) {
    return (gemm_time(d, dtype, 8192, 512, 8192).value - kStart) /
           (gemm_time(d, dtype, 8192, 4096, 8192).value - kStart) * 8;
  };
  // n/(n+n0): 512/612 against 4096/4196, and 512/1512 against 4096/5096.
  EXPECT_NEAR(slowdown(DType::kBf16), (612. / 512) / (4196. / 4096), 1e-6);
  EXPECT_NEAR(slowdown(DType::kFp8), (1512. / 512) / (5096. / 4096), 1e-6);
}

TEST(Gemm, NothingTakesNoTime) {
  EXPECT_EQ(gemm_time(device(), DType::kBf16, 0, 10, 10).value, 0);
}

TEST(Attention, FullWaves) {
  // 50 heads x 1024 / 128 = 400 units, four full waves of 100: 4 * 50 * 128 * 1024^2
  // = 26.84 GFLOP at 80 TFLOP/s.
  EXPECT_NEAR(attention_time(device(), DType::kBf16, false, 1, 50, 128, 1024, 1024).value,
              335.5e-6 + kStart, 1e-7);
}

TEST(Attention, TheLastWaveIsNotFull) {
  // 51 heads: 408 units are five waves, 408 / 500 of the machine.
  const double full = 4.0 * 51 * 128 * 1024 * 1024 / 80e12;
  EXPECT_NEAR(attention_time(device(), DType::kBf16, false, 1, 51, 128, 1024, 1024).value,
              full * 500 / 408 + kStart, 1e-9);
}

TEST(Attention, HeadWidthsBetweenTheTabulated) {
  // Half way from 80 to 128: 0.65. Below 64 the figure of 64.
  const double flops = 4.0 * 100 * 104 * 1024 * 1024;
  EXPECT_NEAR(
      attention_time(device(), DType::kBf16, false, 1, 100, 104, 1024, 1024).value,
      flops / 65e12 + kStart, 1e-9);
  EXPECT_NEAR(attention_time(device(), DType::kBf16, false, 1, 100, 32, 1024, 1024).value,
              4.0 * 100 * 32 * 1024 * 1024 / 40e12 + kStart, 1e-9);
}

TEST(Attention, ShortKeysLose) {
  DeviceRates d = device();
  d.attention.kv0 = 1024;  // half the rate at 1024 keys
  const double without =
      attention_time(device(), DType::kBf16, false, 1, 100, 128, 1024, 1024).value -
      kStart;
  EXPECT_NEAR(
      attention_time(d, DType::kBf16, false, 1, 100, 128, 1024, 1024).value - kStart,
      2 * without, 1e-9);
}

TEST(Attention, TheOlderKernelHasItsOwnRates) {
  DeviceRates d = device();
  d.attention_fa2.emax_d128 = 0.4;
  const double fa3 =
      attention_time(d, DType::kBf16, false, 1, 100, 128, 1024, 1024).value - kStart;
  EXPECT_NEAR(
      attention_time(d, DType::kBf16, true, 1, 100, 128, 1024, 1024).value - kStart,
      2 * fa3, 1e-9);
  // Quantized weights leave attention in 16 bits.
  EXPECT_EQ(attention_time(d, DType::kFp8, false, 1, 100, 128, 1024, 1024),
            attention_time(d, DType::kBf16, false, 1, 100, 128, 1024, 1024));
}

TEST(Collectives, WireBytesOfARank) {
  const Bytes size(1000);
  EXPECT_DOUBLE_EQ(wire_bytes(Collective::kAllReduce, 4, size).value, 1500);
  EXPECT_DOUBLE_EQ(wire_bytes(Collective::kAllGather, 4, size).value, 750);
  EXPECT_DOUBLE_EQ(wire_bytes(Collective::kReduceScatter, 5, size).value, 800);
  EXPECT_DOUBLE_EQ(wire_bytes(Collective::kAllToAll, 8, size).value, 875);
  EXPECT_DOUBLE_EQ(wire_bytes(Collective::kShift, 8, size).value, 1000);
  EXPECT_EQ(wire_bytes(Collective::kAllReduce, 1, size).value, 0);
}

TEST(Collectives, CurveWithContentionOnWhatIsMoved) {
  FabricRates rates;
  CollectiveCurve curve;
  curve.op = Collective::kAllReduce;
  curve.n = 8;
  curve.a = Seconds(20e-6);
  curve.bandwidth = BytesPerSecond(100e9);
  curve.c = 5e-9;
  rates.curves = {curve};
  AxisPath path;
  path.n_reference = 8;
  path.op_reference = Collective::kAllReduce;
  path.contention = 2;
  path.latency = Seconds(1e-6);
  // 8 MB: wire 14 MB, 140 us and 5 ns * 3741.66 = 18.71 us, twice; the start once.
  EXPECT_NEAR(collective_time(rates, Collective::kAllReduce, 8, Bytes(8e6), path).value,
              20e-6 + 1e-6 + 2 * (140e-6 + 18.708e-6), 1e-9);
  EXPECT_EQ(collective_time(rates, Collective::kAllReduce, 1, Bytes(8e6), path).value, 0);
}

TEST(Collectives, NoCurveTakesTheBusiestResource) {
  AxisPath path;
  path.bandwidth = BytesPerSecond(50e9);
  const double moved =
      collective_time({}, Collective::kShift, 2, Bytes(100e6), path).value -
      collective_time({}, Collective::kShift, 2, Bytes(0), path).value;
  EXPECT_NEAR(moved, 2e-3, 1e-9);
}

}  // namespace
}  // namespace hpplan
