// Numbers in the texts of published measurements ("128K h32 d32 zigzag"), read by a table
// of patterns, so that another wording is a line of data. A rule looks at named fields
// and sets attributes that nothing has set before; rules run in file order.
//
//   - {in: [subgroup, shape], match: 'h(\d+) d(\d+)', set: {heads: $1, head_dim: $2}}
//   - {in: [subgroup], when: {op: attention}, match: 'seq (\d+)', set: {rows: $1}}
//
// in: the first of these fields that has the pattern gives the captures. when: every
// field must have its pattern too. Patterns are ECMAScript regular expressions, letter
// case does not matter.
#pragma once

#include <map>
#include <regex>
#include <string>
#include <vector>

#include "planner/spec/yaml_reader.h"

namespace hpplan {

struct ReadingRule {
  std::vector<std::string> in;
  std::regex match;
  std::vector<std::pair<std::string, std::regex>> when;
  std::vector<std::pair<std::string, std::string>> set;  // attribute -> text with $1..$9
};

using Fields = std::map<std::string, std::string>;
using Attributes = std::map<std::string, std::string>;

// list: the rules. Throws InputError (a bad pattern too, with its place).
std::vector<ReadingRule> read_reading_rules(const YamlNode& list,
                                            const std::string& path);

// Adds to `attributes` what the rules find.
void apply(const std::vector<ReadingRule>& rules, const Fields& fields,
           Attributes& attributes);

}  // namespace hpplan
