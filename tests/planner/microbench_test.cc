// Micro-benchmarks: their file, and rates from them whose answer is known because the
// test made the times with it.
#include "planner/spec/microbench.h"

#include <gtest/gtest.h>

#include <cmath>

#include "planner/calibrate.h"
#include "planner/collectives.h"
#include "planner/compute.h"
#include "planner/fabric.h"
#include "planner/spec/local.h"
#include "planner/spec/rates_yaml.h"

namespace hpplan {
namespace {

DeviceRates profile(const std::string& name) {
  const Catalog::Entry entry = Catalog().find(DataKind::kDevice, name);
  return parse_device(entry.text, entry.file);
}

// What a machine with these rates would measure: fp32 products of several shapes,
// attention of head_dim 32, copies.
Microbench kernels_of(const DeviceRates& truth) {
  Microbench probe;
  probe.id = "probe";
  probe.device = "cpu";
  probe.software = "test";
  probe.topology = "local";
  probe.devices = 4;
  probe.host = "here";
  for (const std::int64_t n : {64, 352, 1024})
    for (const std::int64_t k : {128, 704}) {
      GemmSeries series{DType::kF32, n, k, {}, 0};
      for (const double m : {16.0, 100.0, 700.0})
        series.points.push_back({m,
                                 gemm_time(truth, DType::kF32, m, static_cast<double>(n),
                                           static_cast<double>(k)),
                                 Seconds(1e-7)});
      probe.gemms.push_back(series);
    }
  AttentionSeries calls{DType::kF32, 1, 4, 32, {}, {}, 0};
  for (const double kv : {40.0, 160.0, 640.0}) {
    calls.queries.push_back(160);
    calls.points.push_back(
        {kv, attention_time(truth, DType::kF32, false, 1, 4, 32, 160, kv), Seconds(0)});
  }
  probe.attentions.push_back(calls);
  probe.copies.push_back({{{1e6, memory_time(truth, 1e6), Seconds(0)},
                           {4e6, memory_time(truth, 4e6), Seconds(0)}},
                          0});
  return probe;
}

DeviceRates another_cpu() {
  DeviceRates truth = profile("cpu");
  truth.gemm.emax = 0.55;
  truth.gemm.m0 = 40;
  truth.gemm.n0 = 5;
  truth.gemm.k0 = 33;
  truth.memory_efficiency = 0.6;
  truth.attention.emax_d64 = truth.attention.emax_d80 = truth.attention.emax_d128 = 0.21;
  truth.attention.kv0 = 90;
  return truth;
}

Calibration calibrated(const std::string& device, const std::string& like,
                       const Microbench& probe) {
  return calibrate(Catalog(), device, like, "",
                   {{"probe.yaml", microbench_to_yaml(probe), {}}});
}

std::string refusal(const std::string& device, const std::string& text) {
  try {
    calibrate(Catalog(), device, "", "", {{"probe.yaml", text, {}}});
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Microbench, FileReadsBackAsItWas) {
  Microbench probe = kernels_of(another_cpu());
  probe.collectives.push_back(
      {Collective::kShift,
       2,
       "ring",
       {{0, 2}, {1, 3}},
       {{4096, Seconds(3e-5), Seconds(1e-6)}, {65536, Seconds(9e-5), Seconds(2e-6)}},
       0});
  const std::string text = microbench_to_yaml(probe);
  const YamlNode root = parse_yaml(text, "probe.yaml");
  ASSERT_TRUE(is_microbench(root));
  Microbench back;
  for (const Microbench& group : parse_microbench(root)) {
    back = group.gemms.empty() ? back : group;
    EXPECT_EQ(group.device, "cpu");
    EXPECT_EQ(group.topology, "local");
    EXPECT_EQ(group.devices, 4);
    EXPECT_EQ(group.host, "here");
    for (const CollectiveSeries& series : group.collectives) {
      EXPECT_EQ(series.op, Collective::kShift);
      EXPECT_EQ(series.groups, probe.collectives[0].groups);
      EXPECT_EQ(series.points[1].x, 65536);
      EXPECT_NEAR(series.points[1].time.value, 9e-5, 1e-10);
      EXPECT_NEAR(series.points[1].spread.value, 2e-6, 1e-11);
    }
    for (const AttentionSeries& series : group.attentions) {
      EXPECT_EQ(series.queries, probe.attentions[0].queries);
      EXPECT_EQ(series.points[2].x, 640);
      EXPECT_EQ(series.dtype, DType::kF32);
    }
  }
  ASSERT_EQ(back.gemms.size(), probe.gemms.size());
  EXPECT_EQ(back.gemms[5].n, 1024);
  EXPECT_NEAR(back.gemms[5].points[2].time.value / probe.gemms[5].points[2].time.value, 1,
              1e-5);
}

// The rates that made the times are found again, whatever the profile said before.
TEST(Microbench, KernelRatesAreThoseOfTheTimes) {
  const DeviceRates truth = another_cpu();
  const Calibration c = calibrated("cpu", "", kernels_of(truth));
  ASSERT_TRUE(c.device_fitted);
  EXPECT_NEAR(c.device.gemm.emax, 0.55, 0.01);
  EXPECT_NEAR(c.device.gemm.m0, 40, 2);
  EXPECT_NEAR(c.device.gemm.n0, 5, 1);
  EXPECT_NEAR(c.device.gemm.k0, 33, 2);
  EXPECT_NEAR(c.device.attention.emax_d64, 0.21, 0.003);
  EXPECT_NEAR(c.device.attention.kv0, 90, 2);
  EXPECT_NEAR(c.device.memory_efficiency, 0.6, 0.001);
  EXPECT_EQ(c.device.gemm.source, Source::kMeasured);
  EXPECT_EQ(c.device.attention.source, Source::kMeasured);
  EXPECT_EQ(c.device.gemm.confidence.points, 18);
  ASSERT_EQ(c.kernels.size(), 3u);
  for (const KernelReport& report : c.kernels) {
    EXPECT_GT(report.before, 0.2) << report.what;
    EXPECT_LT(report.after, 0.01) << report.what;
  }
}

// A machine faster than its profile's peak: the peak was none.
TEST(Microbench, ExceededPeakIsRaised) {
  DeviceRates truth = another_cpu();
  truth.peak_fp32 = truth.peak_fp32 * 4;
  truth.gemm.emax = 0.9;
  truth.memory_bandwidth = truth.memory_bandwidth * 10;
  const Calibration c = calibrated("cpu", "", kernels_of(truth));
  const auto rate = [](const DeviceRates& d) { return d.peak_fp32.value * d.gemm.emax; };
  EXPECT_NEAR(rate(c.device) / rate(truth), 1, 0.02);
  EXPECT_LE(c.device.gemm.emax, 1);
  EXPECT_EQ(c.device.peak_source, Source::kMeasured);
  const auto attention = [](const DeviceRates& d) {
    return attention_time(d, DType::kF32, false, 1, 4, 32, 160, 640).value;
  };
  EXPECT_NEAR(attention(c.device) / attention(truth), 1, 0.02);
  // The file that is written reads back to the same times.
  const DeviceRates back = parse_device(write_device(c.device), "cpu.yaml");
  EXPECT_NEAR(attention(back) / attention(truth), 1, 0.02);
}

// Two groups at once on a shared wire take twice as long as one: the curve is that of
// one, and the planner, which multiplies, gives the measured time again.
TEST(Microbench, SiblingGroupsAreTakenOutOfTheCurve) {
  const Topology machine = local_topology(4);
  const Catalog catalog;
  const Catalog::Entry entry = catalog.find(DataKind::kFabric, "gloo-loopback");
  const FabricRates rates = parse_fabric(entry.text, entry.file);
  const std::vector<std::vector<int>> groups = {{0, 1}, {2, 3}};
  const Fabric fabric(machine, rates);
  const AxisPath path = fabric.path(Collective::kAllToAll, groups);
  ASSERT_GT(path.contention, 1.5);
  Microbench probe;
  probe.id = "probe";
  probe.device = "cpu";
  probe.topology = "local";
  probe.devices = 4;
  CollectiveSeries series{Collective::kAllToAll, 2, "ulysses", groups, {}, 0};
  const auto measured = [](double size) { return 200e-6 + size / 2 / 0.7e9; };
  for (double size = 4096; size < 1e7; size *= 4)
    series.points.push_back({size, Seconds(measured(size)), Seconds(0)});
  probe.collectives.push_back(series);
  const Calibration c = calibrated("my-cpu", "", probe);
  ASSERT_TRUE(c.fabric_fitted);
  EXPECT_EQ(c.fabric.name, "my-cpu");
  for (const CollectiveCurve& curve : c.fabric.curves) {
    if (curve.op != Collective::kAllToAll || curve.n != 2) continue;
    EXPECT_NEAR(curve.a.value, 200e-6, 2e-6);
    EXPECT_NEAR(curve.bandwidth.value / (0.7e9 * path.contention), 1, 0.01);
    EXPECT_EQ(curve.source, Source::kMeasured);
  }
  const Fabric after(machine, c.fabric);
  for (const double size : {1e5, 1e6})
    EXPECT_NEAR(collective_time(c.fabric, Collective::kAllToAll, 2, Bytes(size),
                                after.path(Collective::kAllToAll, groups))
                        .value /
                    measured(size),
                1, 0.02);
}

// Noise that hides one curve does not cost the others.
TEST(Microbench, ASeriesWithoutABandwidthIsLeftOutAndSaid) {
  Microbench probe = kernels_of(another_cpu());
  CollectiveSeries flat{Collective::kShift, 2, "ring", {{0, 1}, {2, 3}}, {}, 0};
  CollectiveSeries good{Collective::kAllReduce, 2, "tp", {{0, 1}, {2, 3}}, {}, 0};
  for (double size = 4096; size < 1e7; size *= 4) {
    flat.points.push_back({size, Seconds(3e-3 - size * 1e-10), Seconds(0)});
    good.points.push_back({size, Seconds(1e-3 + size * 1e-9), Seconds(0)});
  }
  probe.collectives = {flat, good};
  const Calibration c = calibrated("my-cpu", "", probe);
  ASSERT_EQ(c.curves.size(), 1u);
  EXPECT_EQ(c.curves[0].fit.curve.op, Collective::kAllReduce);
  ASSERT_EQ(c.notes.size(), 1u);
  EXPECT_NE(c.notes[0].find("shift over 2 ranks: the times do not grow"),
            std::string::npos)
      << c.notes[0];
}

TEST(Microbench, ANewDeviceStartsFromTheProbesOwn) {
  const Calibration c = calibrated("my-cpu", "", kernels_of(another_cpu()));
  EXPECT_EQ(c.device.name, "my-cpu");
  EXPECT_EQ(c.device.units, profile("cpu").units);
  EXPECT_NE(c.device.source.find("hprun --probe"), std::string::npos);
}

// A probe of one device says nothing of another.
TEST(Microbench, AnotherDevicesProbeIsRefused) {
  const std::string text = microbench_to_yaml(kernels_of(another_cpu()));
  const std::string error = refusal("h200", text);
  EXPECT_NE(error.find("it ran on cpu, not on h200"), std::string::npos) << error;
  EXPECT_NE(error.find("--like cpu"), std::string::npos) << error;
}

TEST(Microbench, TwoDtypesAreRefused) {
  Microbench probe = kernels_of(another_cpu());
  probe.gemms.back().dtype = DType::kBf16;
  const std::string error = refusal("cpu", microbench_to_yaml(probe));
  EXPECT_NE(error.find("products of f32 and of bf16"), std::string::npos) << error;
}

TEST(Microbench, WrongRowsAreNamedWithTheirPlace) {
  const auto with = [](const std::string& row) {
    return refusal("cpu",
                   "- id: p\n  kind: collective\n  hardware: {device: cpu, topology: "
                   "local, devices: 4}\n  rows:\n  - " +
                       row + "\n");
  };
  std::string error =
      with("{op: all_reduce, devices: 2, size_bytes: [1, 2, 3], time_us: [1, 2]}");
  EXPECT_NE(error.find("probe.yaml:5"), std::string::npos) << error;
  EXPECT_NE(error.find("has 2 figures, size_bytes has 3"), std::string::npos) << error;
  error = with("{op: all_reduce, devices: 2, size_bytes: [1, 2], time_us: [1, -2]}");
  EXPECT_NE(error.find("above 0"), std::string::npos) << error;
  error = with("{op: all_reduces, devices: 2, size_bytes: [1], time_us: [1]}");
  EXPECT_NE(error.find("expected all_reduce"), std::string::npos) << error;
  error = with(
      "{op: shift, devices: 2, groups: [[0, 1], [2, 9]], size_bytes: [1e3, 1e4, 1e5], "
      "time_us: [1, 5, 30]}");
  EXPECT_NE(error.find("device 9 of 4 in local"), std::string::npos) << error;
  error =
      with("{op: shift, devices: 2, groups: [[0, 1, 2]], size_bytes: [1], time_us: [1]}");
  EXPECT_NE(error.find("a group of 3 devices in a row of 2"), std::string::npos) << error;
}

// Tables of others that name no profile are passed over with the reason.
TEST(Microbench, FreeTextHardwareIsNoted) {
  const std::string error =
      refusal("cpu",
              "- id: p\n  kind: gemm\n  hardware: {chip: some GPU}\n  rows:\n  - {dtype: "
              "bfloat16, n: 8, k: 8, m: [1, 2], time_ms: [1, 2]}\n");
  EXPECT_NE(error.find("names no device profile"), std::string::npos) << error;
}

}  // namespace
}  // namespace hpplan
