// Calibration on tables and runs whose answer is known because the test made them.
#include "planner/calibrate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "planner/search.h"
#include "planner/spec/plan_yaml.h"
#include "planner/spec/quantity.h"
#include "planner/spec/rates_yaml.h"
#include "planner/spec/yaml_reader.h"
#include "tests/planner/problems.h"

namespace hpplan {
namespace {

std::string sample(const std::string& name) {
  return read_text_file(std::string(HPPLAN_SOURCE_DIR) + "/tests/data/bench/" + name);
}

const CollectiveCurve& curve(const FabricRates& fabric, Collective op, int n) {
  for (const CollectiveCurve& c : fabric.curves)
    if (c.op == op && c.n == n) return c;
  throw std::runtime_error("no such curve");
}

std::string error_of(const std::string& device,
                     const std::vector<CalibrationInput>& inputs) {
  try {
    calibrate(Catalog(), device, "", "", inputs);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

// One group of two layouts on 8 x H200, seconds a step.
std::string group(double ulysses8, double tp8, const std::string& id = "g") {
  return concat("- id: ", id,
                "\n  model: MiniMax-H3\n  workload: {resolution: 1344x768, frames: 124, "
                "steps: 50}\n",
                "  hardware: {chip: NVIDIA H200, interconnect: NVLink}\n  software: "
                "SGLang\n  unit: s/step\n  use: rank\n",
                "  rows:\n  - {tp: 1, ulysses: 8, ring: 1, cfg: 1, devices: 8, value: ",
                format_number(ulysses8), "}\n",
                "  - {tp: 8, ulysses: 1, ring: 1, cfg: 1, devices: 8, value: ",
                format_number(tp8), "}\n");
}

TEST(Calibrate, MeasuredLinksTakeThePlaceOfTheProfiles) {
  const Catalog catalog;
  const Calibration c = calibrate(catalog, "a100", "", "",
                                  {{"nccltests_old_allreduce_a100_8.txt",
                                    sample("nccltests_old_allreduce_a100_8.txt"),
                                    {}}});
  EXPECT_TRUE(c.fabric_fitted);
  EXPECT_FALSE(c.device_fitted);
  EXPECT_EQ(c.fabric.name, "nvs-a100");
  const CollectiveCurve& fitted = curve(c.fabric, Collective::kAllReduce, 8);
  EXPECT_EQ(fitted.source, Source::kMeasured);
  EXPECT_EQ(fitted.confidence.points, 32);
  EXPECT_GT(fitted.confidence.error, 0);
  EXPECT_LT(fitted.confidence.error, 0.1);
  // The table's floor is 34 to 35 us, its peak bus bandwidth 235 GB/s at 8 GiB.
  EXPECT_NEAR(fitted.a.value, 34.5e-6, 1.5e-6);
  const double wire = 2 * 7.0 / 8 * 8589934592.0;
  EXPECT_NEAR(wire / (fitted.a.value + wire / fitted.bandwidth.value +
                      fitted.c * std::sqrt(wire)),
              235e9, 35e9);
  // The other curves of the profile stay, with their own sources.
  EXPECT_NE(curve(c.fabric, Collective::kAllReduce, 4).source, Source::kMeasured);
  // What is written reads back to the same.
  const FabricRates back = parse_fabric(write_fabric(c.fabric), "x.yaml");
  EXPECT_EQ(write_fabric(back), write_fabric(c.fabric));
  EXPECT_EQ(curve(back, Collective::kAllReduce, 8).confidence.points, 32);
  EXPECT_NE(calibration_text(c).find("all_reduce"), std::string::npos);
}

TEST(Calibrate, ContradictoryTablesAreRefused) {
  const std::string text = sample("nccom_allg_8rank_stats.txt");
  // The same sizes in twice the time (the bandwidths go down with it).
  std::string slower = "size(B) time:avg(us) algbw(GB/s) busbw(GB/s)\n";
  slower +=
      "1024 20.0 0.05 0.04\n8192 20.4 0.40 0.35\n65536 22.6 2.90 2.54\n524288 29.7 17.67 "
      "15.46\n";
  EXPECT_NE(error_of("a100", {{"allg_1.txt", text, {}}, {"allg_2.txt", slower, {}}})
                .find("contradicts allg_1.txt"),
            std::string::npos);
  EXPECT_EQ(error_of("a100", {{"allg_1.txt", text, {}}, {"allg_2.txt", text, {}}}), "");
}

TEST(Calibrate, SlowerRunsMakeSlowerRates) {
  const Catalog catalog;
  const Calibration first =
      calibrate(catalog, "h200", "", "", {{"g.yaml", group(1, 1), {}}});
  ASSERT_EQ(first.runs.size(), 2u);
  // Runs as the profile says leave it as it is.
  const double u8 = first.runs[0].before, t8 = first.runs[1].before;
  const Calibration same =
      calibrate(catalog, "h200", "", "", {{"g.yaml", group(u8, t8), {}}});
  EXPECT_NEAR(same.compute_factor, 1, 0.01);
  EXPECT_NEAR(same.attention_factor, 1, 0.01);
  // 20 % slower runs are met within 3 %, links stay.
  const Calibration slow =
      calibrate(catalog, "h200", "", "", {{"g.yaml", group(1.2 * u8, 1.2 * t8), {}}});
  for (const RunReport& run : slow.runs)
    EXPECT_NEAR(run.after / run.measured, 1, 0.03) << run.what;
  EXPECT_GT(slow.compute_factor, 1.1);
  EXPECT_FALSE(slow.fabric_fitted);
  EXPECT_EQ(slow.device.gemm.source, Source::kFitted);
  EXPECT_EQ(slow.device.gemm.confidence.points, 2);
  const DeviceRates back = parse_device(write_device(slow.device), "x.yaml");
  EXPECT_EQ(write_device(back), write_device(slow.device));
}

TEST(Calibrate, RunsThatContradictEachOtherAreRefused) {
  EXPECT_NE(
      error_of("h200", {{"a.yaml", group(0.7, 0.9), {}}, {"b.yaml", group(1.4, 0.9), {}}})
          .find("contradicts"),
      std::string::npos);
  EXPECT_EQ(error_of("h200",
                     {{"a.yaml", group(0.7, 0.9), {}}, {"b.yaml", group(0.72, 0.9), {}}}),
            "");
}

TEST(Calibrate, NothingUsableIsAnError) {
  EXPECT_NE(
      error_of("trn2", {{"g.yaml", group(0.7, 0.9), {}}}).find("nothing to calibrate"),
      std::string::npos);
  EXPECT_NE(error_of("h200", {{"x.yaml", "a: 1\n", {}}}).find("is none of"),
            std::string::npos);
  EXPECT_NE(error_of("h201", {}).find("did you mean"), std::string::npos);
  // A measurement without its plan.
  EXPECT_NE(
      error_of("h200", {{"m.yaml",
                         "hpplan_measurement: 1\nstep_s: 1\nstep_min_s: 1\nstep_max_s: "
                         "1\nstep_spread_s: 0\n"
                         "iterations: 3\nwarmup: 1\npeak_bytes: 1\nplan_hash: sha256:1\n",
                         {}}})
          .find("plan"),
      std::string::npos);
}

TEST(Calibrate, ANewDeviceStartsFromAnother) {
  const Calibration c = calibrate(Catalog(), "mine", "h200", "mine-links",
                                  {{"nccltests_old_alltoall_a100_8.txt",
                                    sample("nccltests_old_alltoall_a100_8.txt"),
                                    {}}});
  EXPECT_EQ(c.device.name, "mine");
  EXPECT_EQ(c.fabric.name, "mine-links");
  EXPECT_EQ(c.fabric.curves.size(), 1u);
}

TEST(Calibrate, AMeasuredPlan) {
  const Catalog catalog;
  const Problem problem = testing::problem_named("minimax-h3-tiny", "cpu-8", "hprun");
  SearchOptions options;
  options.devices = 2;
  SearchResult result = make_plan(problem, options);
  ASSERT_TRUE(result.plan);
  Plan& plan = *result.plan;
  Measurement measured;
  measured.step_median = measured.step_min = measured.step_max =
      plan.chosen.predicted.step * 2;
  measured.iterations = 5;
  plan.chosen.measured = measured;
  const Calibration c =
      calibrate(catalog, "cpu", "", "", {{"plan.yaml", plan_to_yaml(plan), {}}});
  ASSERT_EQ(c.runs.size(), 1u);
  EXPECT_NEAR(c.runs[0].before, plan.chosen.predicted.step.value,
              1e-3 * c.runs[0].before);
  EXPECT_GT(c.runs[0].after, 1.3 * c.runs[0].before);

  // The measurement as a file of its own, beside the plan it names.
  Plan bare = plan;
  bare.chosen.measured.reset();
  measured.plan_hash = parse_plan(plan_to_yaml(bare), "plan.yaml").hash;
  const Calibration apart = calibrate(catalog, "cpu", "", "",
                                      {{"m.yaml", measurement_to_yaml(measured), {}},
                                       {"plan.yaml", plan_to_yaml(bare), {}}});
  ASSERT_EQ(apart.runs.size(), 1u);
  EXPECT_DOUBLE_EQ(apart.runs[0].after, c.runs[0].after);
}

}  // namespace
}  // namespace hpplan
