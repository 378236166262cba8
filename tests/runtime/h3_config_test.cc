// Where the dimensions of MiniMax-H3 come from, and what is refused.
#include "runtime/models/h3_config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "planner/spec/catalog.h"
#include "planner/spec/error.h"
#include "planner/spec/model_yaml.h"

namespace hpplan::runtime {
namespace {

class H3ConfigFile : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  std::string refusal(const std::string& text) const {
    std::ofstream(path_) << text;
    try {
      h3_config_from_json(path_);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  }
  const std::string path_ = std::string(HPPLAN_BIN_DIR) + "/h3_config_test." +
                            std::to_string(getpid()) + ".json";
};

constexpr char kClass[] = R"("_class_name":"MiniMaxH3Transformer3DModel")";

TEST_F(H3ConfigFile, AbsentKeysHaveTheClassDefaults) {
  EXPECT_EQ(
      refusal(std::string("{") + kClass + R"(,"num_layers":3,"patch_size":[1,4,2]})"),
      "");
  H3Config want;
  want.layers = 3;
  want.patch[1] = 4;
  EXPECT_EQ(h3_config_from_json(path_), want);
  EXPECT_EQ(want.attention_width(), 7168);
  EXPECT_EQ(want.adaln_width(), 96768);
}

TEST_F(H3ConfigFile, RefusalsNameTheKey) {
  const auto expect = [&](const std::string& body, const std::string& key) {
    const std::string text = refusal(std::string("{") + kClass + body + "}");
    EXPECT_NE(text.find(key), std::string::npos) << text;
  };
  expect(R"(,"num_layer":3)", "did you mean 'num_layers'?");
  expect(R"(,"num_layers":0)", "num_layers");
  expect(R"(,"num_layers":2.5)", "num_layers");
  expect(R"(,"ffn_dim":"wide")", "ffn_dim");
  expect(R"(,"norm_eps":-1)", "norm_eps");
  expect(R"(,"patch_size":[1,2])", "patch_size");
  expect(R"(,"rope_freq_dim":32)",
         "rope_freq_dim: rotates 6 * 32 = 192 channels, a head has 128");
  EXPECT_NE(refusal(R"({"_class_name":"FluxTransformer2DModel"})")
                .find("FluxTransformer2DModel"),
            std::string::npos);
  EXPECT_NE(refusal("{}").find("_class_name"), std::string::npos);
  EXPECT_NE(refusal("{").find("not JSON"), std::string::npos);
  std::filesystem::remove(path_);
  EXPECT_THROW(h3_config_from_json(path_), InputError);
}

// The profile of the published model leads to the published dimensions, those it does not
// hold among them.
TEST(H3Config, PublishedProfileGivesTheClassDefaults) {
  const Catalog::Entry entry = Catalog().find(DataKind::kModel, "minimax-h3");
  const ModelSpec spec = parse_model(entry.text, entry.file);
  EXPECT_EQ(h3_config_from_spec(spec), H3Config());
  EXPECT_NO_THROW(check_same_model(H3Config(), spec, "config.json"));
  H3Config other;
  other.layers = 48;
  try {
    check_same_model(other, spec, "config.json");
    FAIL();
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("config.json: num_layers"), std::string::npos)
        << e.what();
  }
}

TEST(H3Config, TinyProfileIsRunnable) {
  const Catalog::Entry entry = Catalog().find(DataKind::kModel, "minimax-h3-tiny");
  const H3Config c = h3_config_from_spec(parse_model(entry.text, entry.file));
  EXPECT_LE(6 * c.rope_freqs, c.head_dim);
  EXPECT_GT(c.rope_freqs, 0);
}

}  // namespace
}  // namespace hpplan::runtime
