// The regression gate of predictions: figures over the published measurements that were
// accepted once may get better, not worse. Targets and what they mean: README, "How good
// are the predictions".
#include "planner/validate.h"

#include <gtest/gtest.h>

#include "planner/spec/yaml_reader.h"

namespace hpplan {
namespace {

const Validation& published() {
  static const Validation v = [] {
    const Catalog catalog;
    const Catalog::Entry entry = catalog.find(DataKind::kMeasurements, "published");
    return validate(catalog, parse_measurements(entry.text, entry.file));
  }();
  return v;
}

const GroupScore& group(const std::string& id) {
  for (const GroupScore& g : published().groups)
    if (g.id == id) return g;
  throw std::runtime_error("no group " + id);
}

TEST(Validate, AcceptedFiguresDoNotWorsen) {
  const std::string path = std::string(HPPLAN_SOURCE_DIR) + "/tests/golden/validate.yaml";
  const YamlNode accepted = parse_yaml(read_text_file(path), path);
  MapReader in(accepted);
  const Validation& v = published();
  EXPECT_LE(*v.regret_mean, in.number("regret_mean"));
  EXPECT_LE(*v.regret_best_of_3_mean, in.number("regret_best_of_3_mean"));
  EXPECT_GE(*v.tau_mean, in.number("tau_mean"));
  EXPECT_GE(*v.pairs_right, in.number("pairs_right"));
  EXPECT_LE(*v.mape_median, in.number("mape_median"));
  EXPECT_LE(*v.level_median, in.number("level_median"));
  EXPECT_GE(v.failed_predicted, in.number("out_of_memory_predicted"));
  EXPECT_LE(v.false_alarms, in.number("false_alarms"));
  EXPECT_GE(v.sets, in.number("sets"));
  EXPECT_GE(v.given.failed_predicted, in.number("given_out_of_memory_predicted"));
  EXPECT_LE(v.given.false_alarms, in.number("given_false_alarms"));
  EXPECT_LE(*v.calls.regret_mean, in.number("calls_regret_mean"));
  EXPECT_GE(*v.calls.tau_mean, in.number("calls_tau_mean"));
  EXPECT_GE(v.calls.sets, in.number("calls_sets"));
  in.finish();
}

// MiniMax-H3 on one NVSwitch box: the order is exact and every row is near, with nothing
// fitted but the request's fixed time left in.
TEST(Validate, MiniMaxH3OnEightH200IsOrderedExactly) {
  const GroupScore& g = group("h3-h200-480p-tp-x-ulysses");
  EXPECT_EQ(*g.regret, 1);
  EXPECT_EQ(*g.tau, 1);
}

// Calibrated by its own run on 16 cores, the vLLM-Omni Neuron rows on 32 and 64 are
// within 6 %.
TEST(Validate, OneRunOn16CoresPredictsTheOthersOnTrn2) {
  const GroupScore& g = group("h3-trn2-48xl-vllm-omni-neuron");
  ASSERT_EQ(g.detail.size(), 4u);
  const double factor = g.detail[1].measured / g.detail[1].predicted;
  EXPECT_NEAR(g.detail[2].predicted * factor / g.detail[2].measured, 1, 0.06);
  EXPECT_NEAR(g.detail[3].predicted * factor / g.detail[3].measured, 1, 0.06);
}

TEST(Validate, OneRunOfTp8PredictsTheOtherDiffusersLayoutsOnTrn2) {
  const GroupScore& g = group("h3-trn2-48xl-diffusers");
  ASSERT_GE(g.detail.size(), 3u);
  const double factor = g.detail[0].measured / g.detail[0].predicted;
  for (std::size_t i = 1; i < 3; ++i)
    EXPECT_NEAR(g.detail[i].predicted * factor / g.detail[i].measured, 1, 0.09)
        << g.detail[i].text;
}

TEST(Validate, WanOn1To64DevicesIsWithin12PercentOfItsOneDeviceRun) {
  const GroupScore& g = group("trtllm-wan22-gb200-1-to-64");
  const double factor = g.detail[0].measured / g.detail[0].predicted;
  for (const GroupScore::Row& row : g.detail)
    EXPECT_NEAR(row.predicted * factor / row.measured, 1, 0.12) << row.text;
}

// The three-dimensional order on one PCIe box: level from its run on four cards, first
// and last place right.
TEST(Validate, Flux2OnEightL20IsWithin8PercentOfItsFourCardRun) {
  const GroupScore& g = group("cachedit-flux2-8xl20");
  double factor = 0;
  for (const GroupScore::Row& row : g.detail)
    if (row.text == "tp4, 4 devices") factor = row.measured / row.predicted;
  ASSERT_GT(factor, 0);
  const GroupScore::Row* fastest[2] = {nullptr, nullptr};  // predicted, measured
  const GroupScore::Row* slowest[2] = {nullptr, nullptr};
  int rows = 0;
  for (const GroupScore::Row& row : g.detail) {
    if (row.text.find(", 8 devices") == std::string::npos ||
        row.text.find(':') != std::string::npos)
      continue;
    ++rows;
    EXPECT_NEAR(row.predicted * factor / row.measured, 1, 0.08) << row.text;
    for (int i = 0; i < 2; ++i) {
      const auto seconds = [i](const GroupScore::Row* r) {
        return i == 0 ? r->predicted : r->measured;
      };
      if (fastest[i] == nullptr || seconds(&row) < seconds(fastest[i])) fastest[i] = &row;
      if (slowest[i] == nullptr || seconds(&row) > seconds(slowest[i])) slowest[i] = &row;
    }
  }
  EXPECT_EQ(rows, 6);
  EXPECT_EQ(fastest[0], fastest[1]);
  EXPECT_EQ(slowest[0], slowest[1]);
}

// What the model is asked to reach over the published sets.
TEST(Validate, Targets) {
  const Validation& v = published();
  EXPECT_LE(*v.regret_mean, 1.02);
  EXPECT_LE(*v.regret_best_of_3_mean, 1.005);
  EXPECT_GE(*v.tau_mean, 0.78);
  EXPECT_GE(*v.pairs_right, 0.86);
  EXPECT_LE(*v.mape_median, 0.10);
  EXPECT_LE(*v.level_median, 0.26);
  EXPECT_LE(*v.level_left_out_median, 0.25);
  EXPECT_GE(v.given.failed_predicted, 0.9 * v.given.failed);
}

TEST(Validate, BandsHoldWhatTheyPromise) { EXPECT_GE(*published().in_band, 0.85); }

TEST(Validate, EveryPartOfTheModelIsNeeded) {
  const Catalog catalog;
  const Catalog::Entry entry = catalog.find(DataKind::kMeasurements, "published");
  const auto groups = parse_measurements(entry.text, entry.file);
  const auto with = [&](bool Ablation::*part) {
    Ablation ablation;
    ablation.*part = false;
    return validate(catalog, groups, ablation);
  };
  EXPECT_GT(*with(&Ablation::contention).regret_mean, *published().regret_mean);
  EXPECT_GT(*with(&Ablation::head_padding).mape_median, *published().mape_median);
  EXPECT_LT(*with(&Ablation::host_dispatch).tau_mean, *published().tau_mean);
  EXPECT_LT(*with(&Ablation::ring_merge).tau_mean, *published().tau_mean);
}

TEST(MeasurementsYaml, NamesWhatIsWrong) {
  const auto refusal = [](const std::string& text) {
    try {
      parse_measurements(text, "m.yaml");
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal("a: 1\n"),
            "m.yaml:1:1: expected a list of measurement groups, got a map");
  EXPECT_EQ(refusal("- {id: x, model: y, unit: s, rows: [{tp: 0, devices: 8}]}\n"),
            "m.yaml:1:42: x.rows[0].tp: expected a whole number of at least 1 and at "
            "most 1048576, got '0'");
  EXPECT_NE(refusal("- {id: x, model: y, rows: []}\n").find("[0].unit: is missing"),
            std::string::npos);
}

}  // namespace
}  // namespace hpplan
