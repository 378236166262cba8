#include "planner/spec/reading_rules.h"

#include <algorithm>

#include "planner/spec/yaml_reader.h"

namespace hpplan {
namespace {

std::regex pattern(const YamlNode& node, const std::string& key) {
  const std::string text = node.text(key);
  if (text.size() > 400)
    throw InputError(node.where, key, "expected a pattern of at most 400 characters");
  try {
    return std::regex(text,
                      std::regex::ECMAScript | std::regex::icase | std::regex::optimize);
  } catch (const std::regex_error& error) {
    throw InputError(node.where, key, concat("not a regular expression: ", error.what()));
  }
}

const std::string& field(const Fields& fields, const std::string& name) {
  static const std::string kNone;
  const auto at = fields.find(name);
  return at == fields.end() ? kNone : at->second;
}

// "$1x" with the captures put in.
std::string filled(const std::string& text, const std::smatch& captures) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '$' && i + 1 < text.size() && text[i + 1] >= '0' &&
        text[i + 1] <= '9') {
      const std::size_t n = static_cast<std::size_t>(text[++i] - '0');
      if (n < captures.size()) out += captures[n].str();
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

std::vector<ReadingRule> read_reading_rules(const YamlNode& list,
                                            const std::string& path) {
  if (list.kind != YamlNode::Kind::kList)
    throw InputError(list.where, path, concat("expected a list, got ", list.kind_text()));
  std::vector<ReadingRule> rules;
  for (const YamlNode& node : list.items) {
    MapReader in(node, concat(path, "[", rules.size(), "]"));
    ReadingRule rule;
    rule.in = in.require("in").texts(in.name("in"));
    rule.match = pattern(in.require("match"), in.name("match"));
    if (const YamlNode* when = in.find("when")) {
      if (when->kind != YamlNode::Kind::kMap)
        in.fail("when", concat("expected a map, got ", when->kind_text()));
      for (const auto& [key, value] : when->entries)
        rule.when.emplace_back(key, pattern(value, in.name("when." + key)));
    }
    const YamlNode& set = in.require("set");
    if (set.kind != YamlNode::Kind::kMap)
      in.fail("set", concat("expected a map, got ", set.kind_text()));
    for (const auto& [key, value] : set.entries)
      rule.set.emplace_back(key, value.text(in.name("set." + key)));
    in.finish();
    rules.push_back(std::move(rule));
  }
  return rules;
}

void apply(const std::vector<ReadingRule>& rules, const Fields& fields,
           Attributes& attributes) {
  for (const ReadingRule& rule : rules) {
    if (!std::all_of(rule.when.begin(), rule.when.end(), [&](const auto& w) {
          return std::regex_search(field(fields, w.first), w.second);
        }))
      continue;
    for (const std::string& name : rule.in) {
      std::smatch captures;
      if (!std::regex_search(field(fields, name), captures, rule.match)) continue;
      for (const auto& [key, value] : rule.set)
        attributes.emplace(key, filled(value, captures));
      break;
    }
  }
}

}  // namespace hpplan
