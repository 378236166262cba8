// Words, sizes and numbers in the free text of published measurements. For match.cc.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/spec/yaml_reader.h"

namespace hpplan {

// Means `is` where all its words occur, letter case aside.
struct Pattern {
  std::vector<std::string> words;
  std::string is;
};
std::vector<Pattern> read_patterns(MapReader& in, const std::string& key);
// What the first pattern that fits means; "" when none does.
std::string first_of(const std::vector<Pattern>& patterns, const std::string& text);

// Names and what they stand for, to find inside texts.
class NameTable {
 public:
  void add(const std::string& written, const std::string& name);
  // The longest name within the text, by letters and digits alone ("FLUX.1-dev" is in
  // "flux1 dev, bf16"); "" none.
  std::string within(const std::string& text) const;

 private:
  std::vector<std::pair<std::string, std::string>> names_;
};

std::string lower(std::string text);
std::string text_at(const std::map<std::string, std::string>& map,
                    const std::string& key);

// The whole number that a text is, or that it starts with; nullopt else ("not stated").
std::optional<int> whole(const std::string& text);

struct Size {
  int width = 0, height = 0;
};
// "1344x768" anywhere in a text; "720p"; a lone power-of-two square ("1024", "2048
// torch.compile").
std::optional<Size> size_in(const std::string& text);

// "124f" in a subgroup.
std::optional<int> frames_in(const std::string& text);

}  // namespace hpplan
