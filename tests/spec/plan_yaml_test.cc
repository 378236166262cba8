#include "planner/spec/plan_yaml.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "planner/spec/catalog.h"
#include "planner/spec/error.h"
#include "planner/spec/model_yaml.h"
#include "planner/spec/yaml_reader.h"

namespace hpplan {
namespace {

Plan example(Mesh mesh) {
  const Catalog::Entry entry = Catalog().find(DataKind::kModel, "minimax-h3");
  Plan plan{.chosen = {.mesh = std::move(mesh)}};
  plan.model = parse_model(entry.text, entry.file);
  plan.workload = default_workload(plan.model);
  plan.rows = rows_of(plan.model, plan.workload);
  plan.topology.name = "eight";
  plan.topology.levels = {Level{.name = "gpu", .size = 8}};
  plan.engine.name = "hprun";
  plan.chosen.ring_method = RingMethod::kAllGather;
  plan.chosen.placement = "gpu:RTT";
  plan.chosen.split = {.local_heads = 14, .padded_heads = 14, .busiest_heads = 14, .rows = 37739,
                       .padded_rows = 37740, .busiest_rows = 18870};
  plan.chosen.predicted.step = Seconds(1.25);
  plan.chosen.predicted.breakdown.compute = Seconds(1.0 / 3);
  plan.model_hash = plan.workload_hash = plan.topology_hash = "sha256:0";
  return plan;
}

Mesh two_by_four() {
  return Mesh(Degrees::make(4, 2, 1), {Axis::kRing, Axis::kUlysses, Axis::kTp}, {0, 3, 1, 2, 4, 7, 5, 6},
              {0, 1, 2, 3, 4, 5, 6, 7});
}

std::string refusal(const std::string& text) {
  try {
    parse_plan(text, "p.yaml");
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(PlanYaml, ReadsBackWhatItWrote) {
  const Plan plan = example(two_by_four());
  for (const std::string& text : {plan_to_yaml(plan), plan_to_json(plan)}) {
    const Plan read = parse_plan(text, "p.yaml");
    EXPECT_EQ(read.chosen.mesh.groups(Axis::kTp), plan.chosen.mesh.groups(Axis::kTp));
    EXPECT_EQ(read.chosen.mesh.group(3, Axis::kRing), plan.chosen.mesh.group(3, Axis::kRing));
    EXPECT_EQ(read.chosen.ring_method, RingMethod::kAllGather);
    EXPECT_EQ(read.chosen.placement, "gpu:RTT");
    EXPECT_EQ(read.rows.total(), 37739);
    EXPECT_EQ(read.model.block_parameters(read.model.blocks[0]).total(), 645571840);
    EXPECT_EQ(read.chosen.split.busiest_rows, 18870);
    EXPECT_EQ(read.hash, plan_hash(plan));
  }
}

TEST(PlanYaml, IsTheSameBytesForTheSameValues) {
  EXPECT_EQ(plan_to_yaml(example(two_by_four())), plan_to_yaml(example(two_by_four())));
}

TEST(PlanYaml, HasTheAgreedKeysInOrder) {
  const std::string text = plan_to_yaml(example(two_by_four()));
  std::size_t at = 0;
  for (const char* key : {"hpplan: 1", "\nmodel:", "\nworkload:", "\ntopology:", "\nengine: hprun", "\naxes:", "\nmesh:",
                          "\npredicted:", "\nmemory:", "\nmeasured: null", "\nrunners_up:", "\nrejections:", "\nlaunch:",
                          "\nhash: sha256:"}) {
    const std::size_t next = text.find(key, at);
    ASSERT_NE(next, std::string::npos) << key;
    at = next;
  }
  EXPECT_NE(text.find("  dims: [ring, ulysses, tp]\n  shape: [2, 1, 4]\n"), std::string::npos);
  EXPECT_NE(text.find("ranks: [[[0, 3, 1, 2]], [[4, 7, 5, 6]]]"), std::string::npos);
}

// BL-006: the coordinates of every rank stand in the plan by axis name.
TEST(PlanYaml, BL006ListsCoordinatesByAxis) {
  const std::string text = plan_to_yaml(example(two_by_four()));
  EXPECT_NE(text.find("tp: [0, 2, 3, 1, 0, 2, 3, 1]"), std::string::npos) << text;
}

TEST(PlanYaml, RefusesAnEditedPlanAndNamesTheSection) {
  const std::string text = plan_to_yaml(example(two_by_four()));
  EXPECT_EQ(refusal(text), "");
  EXPECT_NE(refusal(replaced(text, "[[[0, 3, 1, 2]]", "[[[3, 0, 1, 2]]")).find("mesh: was changed"), std::string::npos);
  EXPECT_NE(refusal(replaced(text, "rows: 37739", "rows: 37740")).find("workload: was changed"), std::string::npos);
  EXPECT_NE(refusal(replaced(text, "engine: hprun", "engine: sglang")).find("engine: was changed"), std::string::npos);
  EXPECT_NE(refusal(replaced(text, "hash: sha256:", "hash: sha256:0")).find("make the plan again"), std::string::npos);
  EXPECT_NE(refusal(replaced(text, "hpplan: 1", "hpplan: 2")).find("schema 2"), std::string::npos);
  // What the choice was compared with is not what a run rests on.
  EXPECT_EQ(refusal(replaced(text, "placements_examined: 0", "placements_examined: 7")), "");
}

TEST(MeasurementYaml, ReadsBackTimesOrAnError) {
  Measurement m;
  m.step_median = Seconds(0.125);
  m.step_min = Seconds(0.1);
  m.step_max = Seconds(0.3);
  m.iterations = 3;
  m.peak_memory = Bytes(1e9);
  m.wire_bytes["tp"] = 12345;
  m.collectives["tp/all_reduce"] = 4;
  m.steps_s = {0.1, 0.125, 0.3};
  m.software["torch"] = "2.15.0";
  const Measurement read = parse_measurement(measurement_to_yaml(m), "m.yaml");
  EXPECT_EQ(read.step_median, m.step_median);
  EXPECT_EQ(read.steps_s, m.steps_s);
  EXPECT_EQ(read.collectives, m.collectives);
  EXPECT_EQ(read.software, m.software);

  Measurement failed;
  failed.error = "rank 3 died: signal 9, during tp all_reduce #4";
  EXPECT_EQ(parse_measurement(measurement_to_yaml(failed), "m.yaml").error, failed.error);
  EXPECT_THROW(parse_measurement("hpplan_measurement: 1\niterations: 3\n", "m.yaml"), InputError);
}

TEST(WriteFile, LeavesNothingHalfWritten) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "hpplan_write_file_test";
  std::filesystem::remove_all(folder);
  EXPECT_THROW(write_file((folder / "missing" / "a.yaml").string(), "x"), InputError);
  std::filesystem::create_directories(folder);
  write_file((folder / "a.yaml").string(), "one");
  write_file((folder / "a.yaml").string(), "two");
  EXPECT_EQ(read_text_file((folder / "a.yaml").string()), "two");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace hpplan
