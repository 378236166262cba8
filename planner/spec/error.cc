#include "planner/spec/error.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>

namespace hpplan {
namespace {

std::string message(const Location& where, const std::string& key, const std::string& what) {
  std::string text = where.file;
  if (where.line > 0) text += concat(":", where.line, ":", where.column);
  if (!text.empty()) text += ": ";
  if (!key.empty()) text += key + ": ";
  return text + what;
}

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

}  // namespace

InputError::InputError(Location where, std::string key, const std::string& what)
    : std::runtime_error(message(where, key, what)), where_(std::move(where)), key_(std::move(key)) {}

std::string nearest(std::string_view given, const std::vector<std::string>& known) {
  // Names are short; a hostile megabyte of text is not compared with anything.
  if (given.size() > 200) return "";
  std::string best;
  int best_distance = 0;
  for (const std::string& name : known) {
    const int distance = edit_distance(given, name);
    const int limit = static_cast<int>(std::max(given.size(), name.size())) / 3 + 1;
    if (distance <= limit && (best.empty() || distance < best_distance)) {
      best = name;
      best_distance = distance;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view given, const std::vector<std::string>& known) {
  const std::string name = nearest(given, known);
  return name.empty() ? "" : concat(", did you mean '", name, "'?");
}

void check_failed(const char* condition, const char* file, int line, const std::string& values) {
  std::fprintf(stderr, "%s:%d: internal check failed: %s (%s)\nThis is a mistake in hpplan, not in your input.\n",
               file, line, condition, values.c_str());
  std::abort();
}

}  // namespace hpplan
