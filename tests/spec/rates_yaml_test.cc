// Device and fabric rates: what is read, what is refused, that it reads back, and that
// every file has its sources.
#include "planner/spec/rates_yaml.h"

#include <gtest/gtest.h>

#include "planner/spec/catalog.h"
#include "planner/spec/error.h"

namespace hpplan {
namespace {

const std::string kDevice =
    "name: d\nsource: a table\npeak_bf16: 100TFLOP/s\npeak_basis: "
    "datasheet\nmemory_bandwidth: 1TB/s\n"
    "memory_efficiency: 0.85\nunits: 10\ngemm: {emax: 0.8, m0: 1, n0: 2, k0: 3, basis: "
    "published}\n"
    "attention: {emax_d64: 0.5, emax_d80: 0.6, emax_d128: 0.7, tile_rows: 128, kv0: 500, "
    "basis: fitted}\n";
const std::string kFabric =
    "name: f\nsource: a table\nlink: 77GB/s\nbasis: published\ncurves:\n"
    "  - {op: all_reduce, n: 4, a: 20us, bandwidth: 100GB/s, c: 5ns}\n"
    "  - {op: shift, n: 2, a: 8us, bandwidth: 300GB/s, basis: measured, points: 12, "
    "error: 0.03}\n";

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  const std::size_t at = text.find(what);
  if (at == std::string::npos) throw std::runtime_error("not there: " + what);
  return text.replace(at, what.size(), with);
}

std::string device_error(const std::string& what, const std::string& with) {
  try {
    parse_device(replaced(kDevice, what, with), "d.yaml");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::string fabric_error(const std::string& what, const std::string& with) {
  try {
    parse_fabric(replaced(kFabric, what, with), "f.yaml");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(RatesYaml, Device) {
  const DeviceRates d = parse_device(kDevice, "d.yaml");
  EXPECT_DOUBLE_EQ(d.peak_bf16.value, 100e12);
  EXPECT_DOUBLE_EQ(d.memory_bandwidth.value, 1e12);
  EXPECT_EQ(d.gemm.source, Source::kPublished);
  EXPECT_EQ(d.attention.source, Source::kFitted);
  // What is not given is as the other: no fp8 rates, no older kernel.
  EXPECT_EQ(d.gemm_fp8.emax, 0.8);
  EXPECT_EQ(d.attention_fa2.emax_d128, 0.7);
  EXPECT_EQ(write_device(parse_device(write_device(d), "x")), write_device(d));
}

TEST(RatesYaml, Fabric) {
  const FabricRates f = parse_fabric(kFabric, "f.yaml");
  EXPECT_DOUBLE_EQ(f.link.value, 77e9);
  ASSERT_EQ(f.curves.size(), 2u);
  EXPECT_EQ(f.curves[0].source, Source::kPublished);  // the file's
  EXPECT_DOUBLE_EQ(f.curves[0].c, 5e-9);
  EXPECT_EQ(f.curves[1].source, Source::kMeasured);
  EXPECT_EQ(f.curves[1].confidence.points, 12);
  EXPECT_EQ(write_fabric(parse_fabric(write_fabric(f), "x")), write_fabric(f));
}

TEST(RatesYaml, WrongInputSaysWhat) {
  EXPECT_NE(device_error("emax: 0.8", "emax: 1.2").find("at most 1"), std::string::npos);
  EXPECT_NE(device_error("emax: 0.8", "emax: .nan"), "");
  EXPECT_NE(device_error("100TFLOP/s", "100").find("peak_bf16"), std::string::npos);
  EXPECT_NE(device_error("units: 10", "units: 0").find("units"), std::string::npos);
  EXPECT_NE(device_error("units: 10", "units: 10\nunit: 3").find("did you mean 'units'"),
            std::string::npos);
  EXPECT_NE(device_error("basis: fitted", "basis: guessed").find("basis"),
            std::string::npos);
  EXPECT_NE(fabric_error("op: shift", "op: shuffle").find("op"), std::string::npos);
  EXPECT_NE(fabric_error("bandwidth: 300GB/s", "bandwidth: 0GB/s").find("above 0"),
            std::string::npos);
  EXPECT_NE(fabric_error("op: shift, n: 2", "op: all_reduce, n: 4").find("second curve"),
            std::string::npos);
  EXPECT_NE(fabric_error("error: 0.03", "error: -1").find("error"), std::string::npos);
}

TEST(RatesYaml, EveryProfileReadsAndHasASource) {
  const Catalog catalog;
  for (const Catalog::Entry& entry : catalog.all(DataKind::kDevice)) {
    const DeviceRates d = parse_device(entry.text, entry.file);
    EXPECT_EQ(d.name, entry.name);
    EXPECT_FALSE(d.source.empty()) << entry.name;
  }
  for (const Catalog::Entry& entry : catalog.all(DataKind::kFabric)) {
    const FabricRates f = parse_fabric(entry.text, entry.file);
    EXPECT_EQ(f.name, entry.name);
    EXPECT_FALSE(f.source.empty()) << entry.name;
  }
  EXPECT_GE(catalog.names(DataKind::kDevice).size(), 25u);
  EXPECT_GE(catalog.names(DataKind::kFabric).size(), 15u);
}

}  // namespace
}  // namespace hpplan
