#include "planner/spec/measurements_yaml.h"

#include "planner/spec/yaml_reader.h"

namespace hpplan {
namespace {

std::string text_of(const YamlNode& node) {
  if (node.kind == YamlNode::Kind::kScalar) return node.scalar;
  if (node.kind == YamlNode::Kind::kNull) return "";
  std::string text;
  for (const YamlNode& item : node.items) text += (text.empty() ? "" : ", ") + text_of(item);
  for (const auto& [key, item] : node.entries) text += (text.empty() ? "" : ", ") + key + ": " + text_of(item);
  return text;
}

std::map<std::string, std::string> texts_of(const YamlNode* node) {
  std::map<std::string, std::string> all;
  if (node != nullptr && node->kind == YamlNode::Kind::kMap)
    for (const auto& [key, value] : node->entries) all[key] = text_of(value);
  return all;
}

MeasuredRow read_row(const YamlNode& node, const std::string& path) {
  MapReader in(node, path);
  MeasuredRow row;
  row.line = node.where.line;
  if (const YamlNode* subgroup = in.find("subgroup")) row.subgroup = text_of(*subgroup);
  const auto degree = [&](const char* key) { return static_cast<int>(in.integer_or(key, 1, 1, 1 << 20)); };
  row.tp = degree("tp");
  row.ulysses = degree("ulysses");
  row.ring = degree("ring");
  row.cfg = degree("cfg");
  row.devices = static_cast<int>(in.integer("devices", 1, 1 << 20));
  row.other = texts_of(in.find("other"));
  if (in.find("value")) row.value = in.number("value");
  if (row.value && *row.value <= 0) in.fail("value", "must be above 0");
  if (in.find("memory_gib")) row.memory_gib = in.number("memory_gib");
  else if (in.find("memory_gb_as_printed")) row.memory_gib = in.number("memory_gb_as_printed") * kGB / kGiB;
  row.status = in.text("status", "");
  return row;
}

}  // namespace

std::vector<MeasuredGroup> parse_measurements(const std::string& text, const std::string& file) {
  const YamlNode root = parse_yaml(text, file);
  if (root.kind != YamlNode::Kind::kList)
    throw InputError(root.where, "", concat("expected a list of measurement groups, got ", root.kind_text()));
  std::vector<MeasuredGroup> groups;
  for (const YamlNode& node : root.items) {
    const std::string path = concat("[", groups.size(), "]");
    MapReader in(node, path);
    MeasuredGroup g;
    g.line = node.where.line;
    g.id = in.text("id");
    g.model = in.text("model");
    g.unit = in.text("unit");
    g.software = in.text("software", "");
    g.quantity = in.text("quantity", "");
    g.use = in.text("use", "");
    g.workload = texts_of(in.find("workload"));
    g.hardware = texts_of(in.find("hardware"));
    const YamlNode& rows = in.require("rows");
    if (rows.kind != YamlNode::Kind::kList) in.fail("rows", concat("expected a list, got ", rows.kind_text()));
    for (const YamlNode& row : rows.items) g.rows.push_back(read_row(row, concat(g.id, ".rows[", g.rows.size(), "]")));
    groups.push_back(std::move(g));
  }
  return groups;
}

}  // namespace hpplan
