#include "planner/match_text.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace hpplan {
namespace {

std::string bare(const std::string& text) {
  std::string out;
  for (const unsigned char c : text)
    if (std::isalnum(c) != 0) out += static_cast<char>(std::tolower(c));
  return out;
}

// Shorter names are found by chance.
constexpr std::size_t kShortestName = 4;

}  // namespace

void NameTable::add(const std::string& written, const std::string& name) {
  if (std::string key = bare(written); key.size() >= kShortestName)
    names_.emplace_back(std::move(key), name);
}

std::string NameTable::within(const std::string& text) const {
  const std::string key = bare(text);
  const std::pair<std::string, std::string>* found = nullptr;
  for (const auto& entry : names_)
    if (key.find(entry.first) != std::string::npos &&
        (found == nullptr || entry.first.size() > found->first.size()))
      found = &entry;
  return found == nullptr ? "" : found->second;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::vector<Pattern> read_patterns(MapReader& in, const std::string& key) {
  std::vector<Pattern> patterns;
  for (const YamlNode& node : in.require(key).items) {
    MapReader p(node, key);
    patterns.push_back({p.require("words").texts(key), p.text("is")});
    p.finish();
  }
  return patterns;
}

std::string first_of(const std::vector<Pattern>& patterns, const std::string& text) {
  const std::string low = lower(text);
  for (const Pattern& p : patterns)
    if (std::all_of(p.words.begin(), p.words.end(), [&](const std::string& w) {
          return low.find(w) != std::string::npos;
        }))
      return p.is;
  return "";
}

std::string text_at(const std::map<std::string, std::string>& map,
                    const std::string& key) {
  const auto it = map.find(key);
  return it == map.end() ? "" : it->second;
}

std::optional<int> whole(const std::string& text) {
  int value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value <= 0) return std::nullopt;
  const char* stop = text.data() + text.size();
  return end == stop || *end == ' ' || *end == '(' || *end == '.'
             ? std::optional<int>(value)
             : std::nullopt;
}

std::optional<Size> size_in(const std::string& text) {
  for (std::size_t x = 1; x + 1 < text.size(); ++x) {
    if (text[x] != 'x' || !std::isdigit(static_cast<unsigned char>(text[x - 1])) ||
        !std::isdigit(static_cast<unsigned char>(text[x + 1])))
      continue;
    std::size_t start = x;
    while (start > 0 && std::isdigit(static_cast<unsigned char>(text[start - 1])))
      --start;
    Size s;
    std::from_chars(text.data() + start, text.data() + x, s.width);
    std::from_chars(text.data() + x + 1, text.data() + text.size(), s.height);
    if (s.width >= 64 && s.height >= 64) return s;
  }
  const std::string low = lower(text);
  if (low.find("720p") != std::string::npos) return Size{1280, 720};
  if (low.find("480p") != std::string::npos) return Size{832, 480};
  for (const int side : {512, 1024, 2048, 4096, 8192}) {
    const std::string word = std::to_string(side);
    const std::size_t at = low.find(word);
    if (at == std::string::npos) continue;
    const bool left = at == 0 || !std::isalnum(static_cast<unsigned char>(low[at - 1]));
    const bool right = at + word.size() == low.size() ||
                       !std::isalnum(static_cast<unsigned char>(low[at + word.size()]));
    if (left && right) return Size{side, side};
  }
  return std::nullopt;
}

std::optional<int> frames_in(const std::string& text) {
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] != 'f' || !std::isdigit(static_cast<unsigned char>(text[i - 1])) ||
        (i + 1 < text.size() && std::isalnum(static_cast<unsigned char>(text[i + 1]))))
      continue;
    std::size_t start = i;
    while (start > 0 && std::isdigit(static_cast<unsigned char>(text[start - 1])))
      --start;
    return whole(text.substr(start, i - start));
  }
  return std::nullopt;
}

}  // namespace hpplan
