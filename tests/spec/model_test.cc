#include "planner/spec/model_yaml.h"

#include <gtest/gtest.h>

#include "planner/spec/catalog.h"
#include "planner/spec/error.h"
#include "planner/spec/workload.h"

namespace hpplan {
namespace {

ModelSpec model(const std::string& name) {
  const Catalog::Entry entry = Catalog().find(DataKind::kModel, name);
  return parse_model(entry.text, entry.file);
}

std::string error_of(const ModelSpec& m, const Workload& w) {
  try {
    rows_of(m, w);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(Model, DimensionsGiveThePublishedSize) {
  for (const Catalog::Entry& entry : Catalog().all(DataKind::kModel)) {
    const ModelSpec m = parse_model(entry.text, entry.file);
    EXPECT_EQ(m.name, entry.name);
    if (!m.published_parameters) continue;
    const double ratio =
        static_cast<double>(m.parameters().total()) / static_cast<double>(*m.published_parameters);
    EXPECT_NEAR(ratio, 1, 0.06) << m.name << " has " << m.parameters().total();
  }
}

// One block of MiniMax-H3 has 645,571,840 parameters, 96,768 x 2,689 of them modulation (BL-048).
TEST(Model, BL048ModulationIsTwoFifthsOfMiniMaxH3) {
  const ModelSpec m = model("minimax-h3");
  const ModelSpec::Parameters block = m.block_parameters(m.blocks[0]);
  EXPECT_EQ(block.total(), 645571840);
  EXPECT_EQ(block.adaln, 2688LL * 96768 + 96768);
  EXPECT_NEAR(2.0 * 50 * block.adaln / kGiB, 24.2, 0.05);
}

TEST(Model, HeadDimIsGivenNotDerived) {
  const ModelSpec m = model("minimax-h3");
  EXPECT_EQ(m.attention_width(), 7168);
  EXPECT_NE(m.hidden, m.attention_width());
}

TEST(Rows, MiniMaxH3CountsVideoAudioAndText) {
  const ModelSpec m = model("minimax-h3");
  Workload w = default_workload(m);
  EXPECT_EQ(rows_of(m, w).total(), 37739);
  w.height = 480;
  w.width = 864;
  EXPECT_EQ(rows_of(m, w).total(), 37 * 15 * 27 + 414 + 29);
  w.text_rows = 100;
  EXPECT_EQ(rows_of(m, w).total(), 37 * 15 * 27 + 414 + 100);
}

TEST(Rows, OthersFollowTheirOwnRule) {
  const ModelSpec wan = model("wan2.1-14b");
  const Rows rows = rows_of(wan, default_workload(wan));
  EXPECT_EQ(rows.total(), 75600);
  EXPECT_EQ(rows.of(StreamKind::kContext), 512);
  const ModelSpec cog = model("cogvideox-5b");
  EXPECT_EQ(rows_of(cog, default_workload(cog)).total(), 226 + 13 * 30 * 45);
  const ModelSpec flux = model("flux.1-dev");
  EXPECT_EQ(rows_of(flux, default_workload(flux)).total(), 512 + 4096);
}

TEST(Rows, WrongSizesNameTheNearestRightOnes) {
  const ModelSpec m = model("minimax-h3");
  Workload w = default_workload(m);
  w.frames = 120;
  EXPECT_EQ(error_of(m, w), "--frames: MiniMax-H3 takes 17k+5 frames, got 120; nearest 107 and 124");
  w = default_workload(m);
  w.frames = 0;
  EXPECT_EQ(error_of(m, w), "--frames: expected 1 to 1048576, got 0");
  w = default_workload(m);
  w.width = 1340;
  EXPECT_EQ(error_of(m, w),
            "--size: MiniMax-H3 takes a width that is a multiple of 32 pixels, got 1340; nearest 1312 and 1344");
  w = default_workload(m);
  w.width = 1000000000;
  EXPECT_NE(error_of(m, w), "");
  const ModelSpec flux = model("flux.1-dev");
  w = default_workload(flux);
  w.frames = 5;
  EXPECT_EQ(error_of(flux, w), "--frames: FLUX.1-dev makes still images: frames must be 1, got 5");
}

TEST(Rows, SeqLenIsAllRowsOfAttention) {
  const ModelSpec wan = model("wan2.1-14b");
  Workload w = default_workload(wan);
  w.seq_len = 12345;
  EXPECT_EQ(rows_of(wan, w).total(), 12345);
  EXPECT_EQ(rows_of(wan, w).of(StreamKind::kContext), 512);
}

TEST(ModelYaml, RefusesWhatIsWrongWithItsPlace) {
  const Catalog::Entry entry = Catalog().find(DataKind::kModel, "minimax-h3");
  const auto message = [&](const std::string& from, const std::string& to) {
    std::string text = entry.text;
    text.replace(text.find(from), from.size(), to);
    try {
      parse_model(text, "m.yaml");
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(message("\nheads: 56", "\nheads: 0"),
            "m.yaml:8:8: heads: expected a whole number of at least 1 and at most 1048576, got '0'");
  EXPECT_EQ(message("\nhidden:", "\nhiden:"), "m.yaml:2:1: hidden: is missing; 'hiden' is there");
  EXPECT_EQ(message("qk_norm: head", "qk_norm: heads"),
            "m.yaml:11:10: qk_norm: expected one of none, head, full, got 'heads', did you mean 'head'?");
  EXPECT_EQ(message("weights: 47.97GiB", "weights: 47.97"),
            "m.yaml:29:25: text_encoder.weights: expected a size with a unit (B, KiB, MiB, GiB, TiB, KB, MB, GB, TB) "
            "such as 24GiB, got '47.97' with no unit");
  EXPECT_EQ(message("kv_heads: 56", "kv_heads: 5"),
            "m.yaml: kv_heads: must divide heads 56 (1, 2, 4, 7, 8, 14, 28, 56), got 5");
}

TEST(Catalog, UnknownNamesGetTheNearest) {
  try {
    Catalog().find(DataKind::kModel, "minimax-h4");
    FAIL();
  } catch (const InputError& e) {
    EXPECT_EQ(std::string(e.what()),
              "no model named 'minimax-h4', did you mean 'minimax-h3'? (hpplan list models names them; a path to a "
              "file is taken too)");
  }
  EXPECT_EQ(Catalog().find(DataKind::kModel, "h3").name, "minimax-h3");
}

}  // namespace
}  // namespace hpplan
