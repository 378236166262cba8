#include "planner/spec/config_json.h"

#include <gtest/gtest.h>

#include "planner/spec/error.h"
#include "planner/spec/yaml_reader.h"

namespace hpplan {
namespace {

std::string refusal(const std::string& text) {
  try {
    parse_config_json(text, "config.json", Catalog());
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(ConfigJson, ReadsThePublicClassesOwnConfig) {
  const std::string path = std::string(HPPLAN_SOURCE_DIR) + "/tests/data/h3/h14/config.json";
  const ModelSpec m = parse_config_json(read_text_file(path), path, Catalog());
  EXPECT_EQ(m.heads, 14);
  EXPECT_EQ(m.head_dim, 8);
  EXPECT_EQ(m.hidden, 40);  // not heads * head_dim
  EXPECT_EQ(m.layers(), 2);
  EXPECT_EQ(m.blocks[0].mlp_width, 112);
  EXPECT_EQ(m.blocks[0].adaln_in, 24);
  EXPECT_EQ(m.blocks[0].adaln_out, 40 * 18);
}

TEST(ConfigJson, ReadsOtherFamiliesByClass) {
  const ModelSpec wan = parse_config_json(
      R"({"_class_name": "WanTransformer3DModel", "num_attention_heads": 12, "attention_head_dim": 128,
          "num_layers": 30, "ffn_dim": 8960, "qk_norm": "rms_norm_across_heads"})",
      "c.json", Catalog());
  EXPECT_EQ(wan.hidden, 1536);
  EXPECT_EQ(wan.blocks[0].mlp_width, 8960);
  EXPECT_TRUE(wan.blocks[0].cross_attention);
  const ModelSpec flux = parse_config_json(
      R"({"_class_name": "FluxTransformer2DModel", "num_attention_heads": 24, "attention_head_dim": 128,
          "num_layers": 19, "num_single_layers": 38})",
      "c.json", Catalog());
  EXPECT_EQ(flux.layers(), 57);
  EXPECT_NEAR(static_cast<double>(flux.parameters().total()), 11.9e9, 0.4e9);
  const ModelSpec z = parse_config_json(
      R"({"_class_name": "ZImageTransformer2DModel", "dim": 3840, "n_heads": 30, "n_kv_heads": 30, "n_layers": 30,
          "n_refiner_layers": 2})",
      "c.json", Catalog());
  EXPECT_EQ(z.head_dim, 128);
  EXPECT_EQ(z.layers(), 34);
}

TEST(ConfigJson, WrongConfigsNameTheKey) {
  EXPECT_NE(refusal("{}").find("_class_name: is missing"), std::string::npos);
  EXPECT_NE(refusal(R"({"_class_name": "WanTransformer2DModel"})").find("did you mean 'WanTransformer3DModel'"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"_class_name": "WanTransformer3DModel", "attention_head_dim": 128, "num_layers": 30})")
                .find("num_attention_heads or n_heads: is missing"),
            std::string::npos);
  EXPECT_NE(refusal("{\"_class_name\": \"WanTransformer3DModel\",\n \"num_attention_heads\": 0}")
                .find("config.json:2:25: num_attention_heads: expected 1 to"),
            std::string::npos);
  EXPECT_NE(refusal("not json at all").find("expected a JSON object"), std::string::npos);
  EXPECT_NE(refusal(std::string(100000, '[')), "");
}

}  // namespace
}  // namespace hpplan
