#include "planner/spec/model_yaml.h"

#include "planner/spec/workload.h"
#include "planner/spec/yaml_reader.h"

namespace hpplan {
namespace {

constexpr std::int64_t kMostWidth = 1 << 24;

BlockSpec read_block(const YamlNode& node, const std::string& path) {
  MapReader in(node, path);
  BlockSpec block;
  block.name = in.text("name");
  block.count = static_cast<int>(in.integer("count", 1, 10000));
  block.dual_stream = in.boolean_or("dual_stream", false);
  block.cross_attention = in.boolean_or("cross_attention", false);
  block.parallel_mlp = in.boolean_or("parallel_mlp", false);
  block.mlp_width = in.integer("mlp_width", 0, kMostWidth);
  block.mlp_gated = in.boolean_or("mlp_gated", false);
  block.adaln_in = in.integer_or("adaln_in", 0, 0, kMostWidth);
  block.adaln_out = in.integer_or("adaln_out", 0, 0, kMostWidth);
  block.text_hidden = in.integer_or("text_hidden", 0, 0, kMostWidth);
  block.text_mlp_width = in.integer_or("text_mlp_width", 0, 0, kMostWidth);
  if (const YamlNode* packed = in.find("packed")) {
    MapReader names(*packed, path + ".packed");
    for (const auto& [name, parts] : packed->entries)
      block.packed.push_back({name, names.require(name).texts(names.name(name))});
  }
  in.finish();
  return block;
}

StreamSpec read_stream(const YamlNode& node, const std::string& path) {
  MapReader in(node, path);
  StreamSpec s;
  s.name = in.text("name");
  s.kind = static_cast<StreamKind>(in.one_of("kind", {"packed", "joint", "context"}));
  if (const YamlNode* pixels = in.find("pixels")) {
    const std::vector<int> hw = pixels->integers(in.name("pixels"), 1, 4096);
    if (hw.size() != 2) in.fail("pixels", "expected [height, width] of one token in pixels");
    s.pixels_h = hw[0];
    s.pixels_w = hw[1];
  }
  if (const YamlNode* frames = in.find("frames")) {
    MapReader rule(*frames, in.name("frames"));
    s.frame_group = static_cast<int>(rule.integer("group", 1, 1000));
    s.frame_first = static_cast<int>(rule.integer("first", 0, 1000));
    s.latent_group = static_cast<int>(rule.integer("latent_group", 1, 1000));
    s.latent_first = static_cast<int>(rule.integer("latent_first", 0, 1000));
    s.latent_frames_per_token = static_cast<int>(rule.integer_or("per_token", 1, 1, 1000));
    rule.finish();
  }
  if (const YamlNode* audio = in.find("audio")) {
    MapReader rule(*audio, in.name("audio"));
    s.rows_per_tick = static_cast<int>(rule.integer("rows_per_tick", 1, 1000));
    s.ticks_per_second = rule.number("ticks_per_second");
    s.fps = rule.number("fps");
    if (s.ticks_per_second <= 0) rule.fail("ticks_per_second", "must be above 0");
    if (s.fps <= 0) rule.fail("fps", "must be above 0");
    rule.finish();
  }
  s.text_rows = static_cast<int>(in.integer_or("rows", 0, 0, 1 << 24));
  s.text_fixed = in.boolean_or("fixed", false);
  s.align = static_cast<int>(in.integer_or("align", 0, 0, 1 << 16));
  in.finish();
  return s;
}

Source read_source(MapReader& in, Source otherwise) {
  return static_cast<Source>(in.one_of_or(
      "basis", {"measured", "published", "datasheet", "fitted", "derived", "assumed"}, static_cast<int>(otherwise)));
}

ComponentSpec read_component(const YamlNode* node, const std::string& path) {
  ComponentSpec component;
  if (node == nullptr) return component;
  MapReader in(*node, path);
  component.weights = in.bytes("weights");
  component.heads = static_cast<int>(in.integer_or("heads", 0, 0, 1 << 20));
  component.activation = in.bytes_or("activation", Bytes(0));
  component.per_pixel = in.boolean_or("per_pixel", true);
  component.source = read_source(in, Source::kAssumed);
  in.finish();
  return component;
}

}  // namespace

ModelSpec parse_model(const std::string& text, const std::string& file) {
  const YamlNode root = parse_yaml(text, file);
  MapReader in(root);
  ModelSpec m = read_model(in);
  in.finish();
  check_model(m, file);
  return m;
}

ModelSpec read_model(MapReader& in) {
  ModelSpec m;
  m.name = in.text("name");
  m.title = in.text("title", m.name);
  m.aliases = in.texts_or_none("aliases");
  m.class_name = in.text("class", "");
  m.source = in.text("source");
  m.hidden = in.integer("hidden", 1, kMostWidth);
  m.heads = static_cast<int>(in.integer("heads", 1, 1 << 20));
  m.kv_heads = static_cast<int>(in.integer_or("kv_heads", m.heads, 1, 1 << 20));
  m.head_dim = static_cast<int>(in.integer("head_dim", 1, 1 << 16));
  m.qk_norm = static_cast<QkNorm>(in.one_of_or("qk_norm", {"none", "head", "full"}, 1));
  m.context_width = in.integer_or("context_width", 0, 0, kMostWidth);
  m.masks_padding = in.boolean_or("masks_padding", true);
  m.other_parameters = in.integer_or("other_parameters", 0, 0);
  if (in.find("published_parameters")) m.published_parameters = in.integer("published_parameters", 1);
  m.guidance_branches = static_cast<int>(in.integer_or("guidance_branches", 1, 1, 16));
  m.transformers = static_cast<int>(in.integer_or("transformers", 1, 1, 16));

  const YamlNode& blocks = in.require("blocks");
  if (blocks.kind != YamlNode::Kind::kList) in.fail("blocks", concat("expected a list, got ", blocks.kind_text()));
  for (const YamlNode& block : blocks.items)
    m.blocks.push_back(read_block(block, concat("blocks[", m.blocks.size(), "]")));
  const YamlNode& streams = in.require("streams");
  if (streams.kind != YamlNode::Kind::kList) in.fail("streams", concat("expected a list, got ", streams.kind_text()));
  for (const YamlNode& stream : streams.items)
    m.streams.push_back(read_stream(stream, concat("streams[", m.streams.size(), "]")));
  m.text_encoder = read_component(in.find("text_encoder"), "text_encoder");
  m.decoder = read_component(in.find("decoder"), "decoder");
  {
    const YamlNode& node = in.require("defaults");
    MapReader d(node, "defaults");
    m.defaults.height = static_cast<int>(d.integer("height", 1, 1 << 16));
    m.defaults.width = static_cast<int>(d.integer("width", 1, 1 << 16));
    m.defaults.frames = static_cast<int>(d.integer_or("frames", 1, 1, 1 << 20));
    m.defaults.text_rows = static_cast<int>(d.integer_or("text_rows", 0, 0, 1 << 24));
    m.defaults.steps = static_cast<int>(d.integer_or("steps", 50, 1, 1 << 20));
    m.defaults.batch = static_cast<int>(d.integer_or("batch", 1, 1, 1 << 16));
    m.defaults.dtype = d.text("dtype", "bf16");
    if (!dtype_from(m.defaults.dtype))
      d.fail("dtype", concat("expected one of f32, bf16, f16, fp8, int8, nvfp4, got '", m.defaults.dtype, "'"));
    d.finish();
  }
  return m;
}

void check_model(const ModelSpec& m, const std::string& file) {
  const auto fail = [&](const char* key, const std::string& what) { throw InputError({file}, key, what); };
  if (m.blocks.empty()) fail("blocks", "at least one block is needed");
  if (m.streams.empty()) fail("streams", "at least one stream is needed");
  if (m.hidden < 1) fail("hidden", "must be at least 1");
  if (m.heads < 1) fail("heads", "must be at least 1");
  if (m.head_dim < 1) fail("head_dim", "must be at least 1");
  if (m.kv_heads < 1 || m.heads % m.kv_heads != 0) {
    std::string divisors;
    for (int d = 1; d <= m.heads && d <= 4096; ++d)
      if (m.heads % d == 0) divisors += concat(divisors.empty() ? "" : ", ", d);
    fail("kv_heads", concat("must divide heads ", m.heads, " (", divisors, "), got ", m.kv_heads));
  }
}

}  // namespace hpplan
