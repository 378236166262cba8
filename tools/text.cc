#include "tools/text.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/spec/quantity.h"

namespace hpplan::tools {

std::string bold(const std::string& text, Style style) {
  return style.color ? "\033[1m" + text + "\033[0m" : text;
}

std::string dim(const std::string& text, Style style) {
  return style.color ? "\033[2m" + text + "\033[0m" : text;
}

std::string time_text(Seconds s) {
  if (s.value >= 1) return format_rounded(s.value, 4) + " s";
  if (s.value >= 1e-3) return format_rounded(s.value * 1e3, 4) + " ms";
  return format_rounded(s.value * 1e6, 4) + " us";
}

std::string columns(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> width;
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (width.size() <= i) width.push_back(0);
      width[i] = std::max(width[i], row[i].size());
    }
  std::string text;
  for (const auto& row : rows) {
    std::string line = " ";
    for (std::size_t i = 0; i < row.size(); ++i)
      line += i + 1 == row.size() ? fmt::format(" {}", row[i])
                                  : fmt::format(" {:>{}}", row[i], width[i]);
    while (!line.empty() && line.back() == ' ') line.pop_back();
    text += line + "\n";
  }
  return text;
}

}  // namespace hpplan::tools
