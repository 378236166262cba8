// Strict reading of YAML: every value is asked for by key and type, every key that nobody asked for is an
// error, and every error names file, line, column and the nearest right value. The document becomes a tree
// of plain values straight from the parser's events, so that aliases (a bomb of them is small on disk and
// gigabytes in memory) are refused before anything is expanded. Size, depth and node count are bounded.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/spec/error.h"
#include "planner/spec/units.h"

namespace hpplan {

struct YamlEntry;

struct YamlNode {
  enum class Kind : std::uint8_t { kNull, kScalar, kList, kMap };
  Kind kind = Kind::kNull;
  std::string scalar;
  bool quoted = false;
  std::vector<YamlNode> items;                              // kList
  std::vector<YamlEntry> entries;   // kMap, in file order
  Location where;

  std::string kind_text() const;  // "a list", "a map", "nothing", "'text'"

  // Of a scalar; each throws InputError with the node's place. key only names the value in the text.
  std::string text(const std::string& key = "") const;
  std::int64_t integer(const std::string& key, std::int64_t least, std::int64_t most) const;
  double number(const std::string& key) const;
  bool boolean(const std::string& key) const;
  std::vector<std::string> texts(const std::string& key) const;           // of a list of scalars
  std::vector<int> integers(const std::string& key, int least, int most) const;
};

struct YamlEntry {
  std::string key;
  YamlNode node;
};

// The largest file that is read at all.
inline constexpr std::uint64_t kMaxInputBytes = 16u << 20;

// The whole of a text file. Throws InputError for a directory, a missing or unreadable file, one above
// kMaxInputBytes (before reading it), NUL bytes and text that is not UTF-8 (with line and column).
std::string read_text_file(const std::string& path);
// The same checks for text already in memory (standard input, embedded data).
void check_text(const std::string& text, const std::string& file);

// One document. Throws InputError for syntax errors, doubled keys, aliases, tags, several documents, an
// empty document and nesting past 64 levels.
YamlNode parse_yaml(const std::string& text, const std::string& file);

// Reads the keys of one map. Call finish() when all known keys were asked for: a key left over is refused
// with the nearest known one.
class MapReader {
 public:
  // path names the map in error texts ("blocks[0]"); "" for the top.
  explicit MapReader(const YamlNode& node, std::string path = "");

  bool has(const std::string& key) const;
  const YamlNode* find(const std::string& key);     // nullptr when absent or null
  const YamlNode& require(const std::string& key);
  std::string name(const std::string& key) const;   // path.key, for error texts

  std::string text(const std::string& key);
  std::string text(const std::string& key, const std::string& otherwise);
  std::int64_t integer(const std::string& key, std::int64_t least, std::int64_t most = kMostCount);
  std::int64_t integer_or(const std::string& key, std::int64_t otherwise, std::int64_t least,
                          std::int64_t most = kMostCount);
  double number(const std::string& key);
  double number_or(const std::string& key, double otherwise);
  bool boolean_or(const std::string& key, bool otherwise);
  std::vector<std::string> texts_or_none(const std::string& key);
  std::vector<int> integers(const std::string& key, int least, int most);
  Bytes bytes(const std::string& key);
  Bytes bytes_or(const std::string& key, Bytes otherwise);
  Seconds seconds(const std::string& key);
  Seconds seconds_or(const std::string& key, Seconds otherwise);
  BytesPerSecond bandwidth(const std::string& key);
  BytesPerSecond bandwidth_or(const std::string& key, BytesPerSecond otherwise);
  FlopsPerSecond flops(const std::string& key);
  FlopsPerSecond flops_or(const std::string& key, FlopsPerSecond otherwise);
  // One of `names`; returns its index.
  int one_of(const std::string& key, const std::vector<std::string>& names);
  int one_of_or(const std::string& key, const std::vector<std::string>& names, int otherwise);

  void finish() const;
  const Location& where() const { return node_.where; }
  [[noreturn]] void fail(const std::string& key, const std::string& what) const;

  static constexpr std::int64_t kMostCount = std::int64_t{1} << 40;

 private:
  const YamlNode& node_;
  std::string path_;
  std::set<std::string> asked_;
};

}  // namespace hpplan
