#include "planner/spec/ranks_yaml.h"

#include "planner/spec/yaml_reader.h"

namespace hpplan {
namespace {

constexpr int kMostRanks = 1 << 16;

const char kForms[] =
    "a list of ranks nested over replica, cfg, ring, ulysses, tp ([[0, 1], [2, 3]]), or "
    "the groups of every axis "
    "({tp: [[0, 1], [2, 3]], ulysses: [[0, 2], [1, 3]]})";

int rank_of(const YamlNode& node) {
  return static_cast<int>(node.integer("rank", 0, kMostRanks - 1));
}

bool is_list(const YamlNode& node) { return node.kind == YamlNode::Kind::kList; }

// Fills shape and ranks; lists of one depth must be equally long.
void flatten(const YamlNode& node, std::size_t depth, RankFile& out) {
  if (!is_list(node)) {
    if (depth != out.shape.size())
      throw InputError(node.where, "", "every list must be nested equally deep");
    if (out.ranks.size() >= kMostRanks)
      throw InputError(node.where, "", concat("more than ", kMostRanks, " ranks"));
    out.ranks.push_back(rank_of(node));
    return;
  }
  const int size = static_cast<int>(node.items.size());
  if (size == 0)
    throw InputError(node.where, "", "ranks were expected, an empty list was given");
  if (depth == out.shape.size()) {
    if (!out.ranks.empty() || depth == kAxisCount)
      throw InputError(
          node.where, "",
          concat("every list must be nested equally deep, at most ", kAxisCount));
    out.shape.push_back(size);
  } else if (out.shape[depth] != size) {
    throw InputError(node.where, "",
                     concat("lists of ", out.shape[depth],
                            " were expected at this depth, one of ", size, " was given"));
  }
  for (const YamlNode& item : node.items) flatten(item, depth + 1, out);
}

std::vector<std::vector<int>> groups_of(const YamlNode& node, const std::string& axis) {
  if (!is_list(node))
    throw InputError(node.where, axis,
                     concat("a list of groups was expected ([[0, 1], [2, 3]]), ",
                            node.kind_text(), " was given"));
  std::vector<std::vector<int>> groups;
  for (const YamlNode& group : node.items) {
    if (!is_list(group) || group.items.empty())
      throw InputError(group.where, axis,
                       concat("a group of ranks was expected ([0, 1]), ",
                              group.kind_text(), " was given"));
    groups.emplace_back();
    for (const YamlNode& rank : group.items) groups.back().push_back(rank_of(rank));
  }
  return groups;
}

}  // namespace

RankFile parse_ranks(const std::string& text, const std::string& file) {
  const YamlNode root = parse_yaml(text, file);
  RankFile out;
  out.file = file;
  if (is_list(root)) {
    flatten(root, 0, out);
    return out;
  }
  if (root.kind != YamlNode::Kind::kMap || root.entries.empty())
    throw InputError(root.where, "",
                     concat(kForms, " was expected, ", root.kind_text(), " was given"));
  for (const auto& [name, node] : root.entries) {
    const std::optional<Axis> axis = axis_from(name);
    if (!axis)
      throw InputError(
          node.where, name,
          concat("an axis was expected (tp, ulysses, ring, cfg, replica)",
                 did_you_mean(name, {"tp", "ulysses", "ring", "cfg", "replica"})));
    out.groups[*axis] = groups_of(node, name);
  }
  return out;
}

RankFile read_ranks(const std::string& path) {
  return parse_ranks(read_text_file(path), path);
}

}  // namespace hpplan
