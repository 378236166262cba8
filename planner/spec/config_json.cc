#include "planner/spec/config_json.h"

#include <nlohmann/json.hpp>

#include <algorithm>

#include "planner/spec/error.h"
#include "planner/spec/model_yaml.h"
#include "planner/spec/yaml_reader.h"

namespace hpplan {
namespace {

using Json = nlohmann::json;
constexpr std::int64_t kMostCount = 1 << 24;

class Config {
 public:
  Config(const std::string& text, std::string file) : file_(std::move(file)) {
    check_text(text, file_);
    // JSON is YAML: the strict reader gives the same bounds on depth and size, and the place of a mistake.
    const YamlNode root = parse_yaml(text, file_);
    if (root.kind != YamlNode::Kind::kMap) throw InputError({file_}, "", "expected a JSON object, as diffusers writes");
    try {
      json_ = Json::parse(text);
    } catch (const Json::exception& e) {
      throw InputError({file_}, "", concat("is no JSON: ", e.what()));
    }
    root_ = root;
  }

  [[noreturn]] void fail(const std::string& key, const std::string& what) const {
    for (const auto& [name, node] : root_.entries)
      if (name == key) throw InputError(node.where, key, what);
    throw InputError({file_}, key, what);
  }

  std::string text(const std::string& key) const {
    if (!json_.contains(key)) fail(key, "is missing; is this the config.json of a diffusers transformer?");
    if (!json_[key].is_string()) fail(key, "expected text");
    return json_[key].get<std::string>();
  }

  // The first of several names that is there; 0 when none is.
  std::int64_t count(const std::vector<std::string>& keys) const {
    for (const std::string& key : keys) {
      if (!json_.contains(key) || json_[key].is_null()) continue;
      if (!json_[key].is_number_integer()) fail(key, concat("expected a whole number, got ", json_[key].dump().substr(0, 60)));
      const auto value = json_[key].get<std::int64_t>();
      if (value < 1 || value > kMostCount) fail(key, concat("expected 1 to ", kMostCount, ", got ", value));
      return value;
    }
    return 0;
  }
  std::int64_t require(const std::vector<std::string>& keys) const {
    const std::int64_t value = count(keys);
    if (value > 0) return value;
    std::string names;
    for (const std::string& key : keys) names += (names.empty() ? "" : " or ") + key;
    throw InputError({file_}, names, "is missing");
  }
  double number(const std::string& key) const {
    if (!json_.contains(key) || !json_[key].is_number()) return 0;
    const double value = json_[key].get<double>();
    if (!(value > 0 && value < 1e6)) fail(key, "expected a number above 0");
    return value;
  }

 private:
  std::string file_;
  Json json_;
  YamlNode root_;
};

// A width in the proportion the profile has it to `was`.
std::int64_t scaled(std::int64_t width, std::int64_t was, std::int64_t is) { return width * is / was; }

// Of the profiles of a class, the one with the most layers in common with the config decides what the config is
// silent about.
std::optional<ModelSpec> profile_of(const Catalog& catalog, const std::string& class_name, std::int64_t layers,
                                    std::vector<std::string>& classes) {
  std::optional<ModelSpec> best;
  for (const Catalog::Entry& entry : catalog.all(DataKind::kModel)) {
    ModelSpec model = parse_model(entry.text, entry.file);
    if (!model.class_name.empty()) classes.push_back(model.class_name);
    if (model.class_name != class_name) continue;
    const auto distance = [&](const ModelSpec& m) { return std::abs(m.blocks[0].count - layers); };
    if (!best || distance(model) < distance(*best)) best = std::move(model);
  }
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  return best;
}

}  // namespace

ModelSpec parse_config_json(const std::string& text, const std::string& file, const Catalog& catalog) {
  const Config config(text, file);
  const std::string class_name = config.text("_class_name");
  const std::int64_t layers = config.count({"num_layers", "n_layers"});
  std::vector<std::string> classes;
  const auto profile = profile_of(catalog, class_name, layers, classes);
  if (!profile) {
    std::string list;
    for (const std::string& known : classes) list += (list.empty() ? "" : ", ") + known;
    config.fail("_class_name", concat("'", class_name.substr(0, 80), "' is not known",
                                      did_you_mean(class_name, classes), "; known: ", list));
  }

  ModelSpec m = *profile;
  const ModelSpec& base = *profile;
  m.name = base.name;
  m.aliases.clear();
  m.source = file;
  m.published_parameters.reset();
  m.heads = static_cast<int>(config.require({"num_attention_heads", "n_heads"}));
  const std::int64_t dim = config.count({"hidden_size", "dim", "inner_dim"});
  const std::int64_t head_dim = config.count({"attention_head_dim"});
  if (head_dim == 0 && dim == 0) config.fail("attention_head_dim", "is missing (and so is dim)");
  if (head_dim == 0 && dim % m.heads != 0)
    config.fail("dim", concat(dim, " does not divide by ", m.heads, " heads"));
  m.head_dim = static_cast<int>(head_dim > 0 ? head_dim : dim / m.heads);
  m.hidden = dim > 0 ? dim : m.attention_width();
  const std::int64_t kv = config.count({"num_key_value_heads", "n_kv_heads"});
  m.kv_heads = static_cast<int>(kv > 0 ? kv : m.heads);

  const std::int64_t refiners = config.count({"n_refiner_layers"});
  if (layers == 0) config.fail("num_layers", "is missing");
  m.blocks[0].count = static_cast<int>(layers + 2 * refiners);
  if (m.blocks.size() > 1) m.blocks[1].count = static_cast<int>(config.require({"num_single_layers"}));
  const std::int64_t ffn = config.count({"ffn_dim", "ffn_hidden_size", "intermediate_size"});
  const double ratio = config.number("mlp_ratio");
  for (BlockSpec& block : m.blocks) {
    const BlockSpec was = block;
    block.mlp_width = ffn > 0     ? ffn
                      : ratio > 0 ? static_cast<std::int64_t>(ratio * static_cast<double>(m.hidden))
                                  : scaled(was.mlp_width, base.hidden, m.hidden);
    block.adaln_out = scaled(was.adaln_out, base.hidden, m.hidden);
    const std::int64_t time = config.count({"time_embed_dim"});
    block.adaln_in = was.adaln_in == base.hidden ? m.hidden
                     : time > 0 && was.adaln_in > 0 ? time
                                                    : was.adaln_in;
    block.text_hidden = scaled(was.text_hidden, base.hidden, m.hidden);
    block.text_mlp_width = scaled(was.text_mlp_width, base.hidden, m.hidden);
  }
  if (base.context_width > 0) {
    const std::int64_t context = config.count({"cross_attention_dim"});
    m.context_width = context > 0 ? context : scaled(base.context_width, base.hidden, m.hidden);
  }
  m.other_parameters = static_cast<std::int64_t>(static_cast<double>(base.other_parameters) *
                                                 static_cast<double>(m.hidden) / static_cast<double>(base.hidden));
  check_model(m, file);
  return m;
}

}  // namespace hpplan
