#include "planner/spec/yaml_reader.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

#include "planner/spec/quantity.h"

namespace hpplan {
namespace {

constexpr std::size_t kMostDepth = 64;
constexpr std::size_t kMostNodes = 4u << 20;

std::string shown(const std::string& text) {
  constexpr std::size_t kMost = 60;
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

// Length of the UTF-8 character at text[i]; 0 when it is none.
std::size_t utf8_length(const std::string& text, std::size_t i) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char first = byte(i);
  std::size_t length = 1;
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) length = 2;
  else if (first >= 0xe0 && first <= 0xef) length = 3;
  else if (first >= 0xf0 && first <= 0xf4) length = 4;
  else return 0;
  if (i + length > text.size()) return 0;
  for (std::size_t k = 1; k < length; ++k)
    if ((byte(i + k) & 0xc0) != 0x80) return 0;
  // Overlong forms, surrogates and code points past U+10FFFF.
  if ((first == 0xe0 && byte(i + 1) < 0xa0) || (first == 0xed && byte(i + 1) > 0x9f) ||
      (first == 0xf0 && byte(i + 1) < 0x90) || (first == 0xf4 && byte(i + 1) > 0x8f))
    return 0;
  return length;
}

class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::string file) : file_(std::move(file)) {}

  YamlNode root;
  bool seen = false;

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override { seen = true; }
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { add(node(mark, YamlNode::Kind::kNull)); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw InputError(place(mark), "", "aliases (*name) are not read; write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& value) override {
    check_tag(mark, tag);
    YamlNode scalar = node(mark, YamlNode::Kind::kScalar);
    scalar.quoted = tag == "!";
    if (!scalar.quoted && (value == "null" || value == "~" || value == "Null" || value == "NULL"))
      scalar.kind = YamlNode::Kind::kNull;
    scalar.scalar = value;
    add(std::move(scalar));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    check_tag(mark, tag);
    open(node(mark, YamlNode::Kind::kList));
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    check_tag(mark, tag);
    open(node(mark, YamlNode::Kind::kMap));
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    YamlNode node;
    std::optional<std::string> key;
    Location key_where;
    std::set<std::string> keys;
  };

  Location place(const YAML::Mark& mark) const { return {file_, mark.line + 1, mark.column + 1}; }

  YamlNode node(const YAML::Mark& mark, YamlNode::Kind kind) {
    if (++nodes_ > kMostNodes)
      throw InputError(place(mark), "", concat("more than ", kMostNodes, " values in one file"));
    YamlNode made;
    made.kind = kind;
    made.where = place(mark);
    return made;
  }

  void check_tag(const YAML::Mark& mark, const std::string& tag) const {
    // "?" is what a plain scalar carries, "!" a quoted one.
    if (!tag.empty() && tag != "?" && tag != "!")
      throw InputError(place(mark), "", concat("tags are not read, got '", shown(tag), "'"));
  }

  void open(YamlNode node) {
    if (open_.size() >= kMostDepth)
      throw InputError(node.where, "", concat("nested deeper than ", kMostDepth, " levels"));
    if (!open_.empty() && open_.back().node.kind == YamlNode::Kind::kMap && !open_.back().key)
      throw InputError(node.where, "", "a key must be plain text");
    open_.push_back({std::move(node), std::nullopt, {}, {}});
  }

  void close() {
    YamlNode done = std::move(open_.back().node);
    open_.pop_back();
    add(std::move(done));
  }

  void add(YamlNode value) {
    if (open_.empty()) {
      root = std::move(value);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind == YamlNode::Kind::kList) {
      parent.node.items.push_back(std::move(value));
    } else if (!parent.key) {
      if (value.kind != YamlNode::Kind::kScalar)
        throw InputError(value.where, "", "a key must be plain text");
      if (!parent.keys.insert(value.scalar).second)
        throw InputError(value.where, shown(value.scalar), "the key is given twice");
      parent.key = value.scalar;
    } else {
      parent.node.entries.push_back({std::move(*parent.key), std::move(value)});
      parent.key.reset();
    }
  }

  std::string file_;
  std::vector<Open> open_;
  std::size_t nodes_ = 0;
};

}  // namespace

void check_text(const std::string& text, const std::string& file) {
  int line = 1, column = 1;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text, i);
    if (length == 0) throw InputError({file, line, column}, "", "not UTF-8 text");
    if (text[i] == '\0') throw InputError({file, line, column}, "", "a NUL byte; this is not a text file");
    if (text[i] == '\n') {
      ++line;
      column = 1;
    } else {
      ++column;
    }
    i += length;
  }
}

std::string read_text_file(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) throw InputError({path}, "", "no such file");
  if (fs::is_directory(status)) throw InputError({path}, "", "is a directory, a file was expected");
  if (fs::is_regular_file(status)) {
    const std::uintmax_t size = fs::file_size(path, error);
    if (!error && size > kMaxInputBytes)
      throw InputError({path}, "", concat("is ", size, " bytes, more than the ", kMaxInputBytes,
                                          " that are read; this is not a file for hpplan"));
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) throw InputError({path}, "", "cannot be opened for reading");
  // A pipe or device has no size; it is read up to the same limit.
  std::string text;
  std::vector<char> chunk(1 << 16);
  while (in.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || in.gcount() > 0) {
    text.append(chunk.data(), static_cast<std::size_t>(in.gcount()));
    if (text.size() > kMaxInputBytes)
      throw InputError({path}, "", concat("is more than the ", kMaxInputBytes, " bytes that are read"));
  }
  check_text(text, path);
  return text;
}

YamlNode parse_yaml(const std::string& text, const std::string& file) {
  check_text(text, file);
  TreeBuilder builder(file);
  try {
    std::istringstream in(text);
    YAML::Parser parser(in);
    parser.HandleNextDocument(builder);
    TreeBuilder more(file);
    if (builder.seen && parser.HandleNextDocument(more))
      throw InputError(more.root.where, "", "a second document (---) in one file");
  } catch (const YAML::Exception& e) {
    throw InputError({file, e.mark.line + 1, e.mark.column + 1}, "", e.msg);
  }
  if (!builder.seen || builder.root.kind == YamlNode::Kind::kNull) throw InputError({file}, "", "is empty");
  return std::move(builder.root);
}

std::string YamlNode::kind_text() const {
  switch (kind) {
    case Kind::kNull: return "nothing";
    case Kind::kScalar: return concat("'", shown(scalar), "'");
    case Kind::kList: return "a list";
    case Kind::kMap: return "a map";
  }
  return "";
}

std::string YamlNode::text(const std::string& key) const {
  if (kind != Kind::kScalar) throw InputError(where, key, concat("expected text, got ", kind_text()));
  return scalar;
}

std::int64_t YamlNode::integer(const std::string& key, std::int64_t least, std::int64_t most) const {
  std::int64_t value = 0;
  const char* end = scalar.data() + scalar.size();
  if (kind == Kind::kScalar && !quoted) {
    const auto [stop, error] = std::from_chars(scalar.data(), end, value);
    if (error == std::errc() && stop == end && value >= least && value <= most) return value;
  }
  const std::string range = most == MapReader::kMostCount ? concat("of at least ", least)
                                                          : concat("of at least ", least, " and at most ", most);
  throw InputError(where, key, concat("expected a whole number ", range, ", got ", kind_text()));
}

double YamlNode::number(const std::string& key) const {
  if (kind != Kind::kScalar || quoted)
    throw InputError(where, key, concat("expected a number, got ", kind_text()));
  return parse_number(scalar, where, key);
}

bool YamlNode::boolean(const std::string& key) const {
  if (kind == Kind::kScalar && !quoted) {
    if (scalar == "true") return true;
    if (scalar == "false") return false;
  }
  throw InputError(where, key, concat("expected true or false, got ", kind_text()));
}

std::vector<std::string> YamlNode::texts(const std::string& key) const {
  if (kind != Kind::kList) throw InputError(where, key, concat("expected a list, got ", kind_text()));
  std::vector<std::string> all;
  for (const YamlNode& item : items) all.push_back(item.text(concat(key, "[", all.size(), "]")));
  return all;
}

std::vector<int> YamlNode::integers(const std::string& key, int least, int most) const {
  if (kind != Kind::kList) throw InputError(where, key, concat("expected a list, got ", kind_text()));
  std::vector<int> all;
  for (const YamlNode& item : items)
    all.push_back(static_cast<int>(item.integer(concat(key, "[", all.size(), "]"), least, most)));
  return all;
}

MapReader::MapReader(const YamlNode& node, std::string path) : node_(node), path_(std::move(path)) {
  if (node.kind != YamlNode::Kind::kMap)
    throw InputError(node.where, path_, concat("expected a map of keys, got ", node.kind_text()));
}

std::string MapReader::name(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }

bool MapReader::has(const std::string& key) const {
  return std::any_of(node_.entries.begin(), node_.entries.end(),
                     [&](const YamlEntry& entry) { return entry.key == key; });
}

const YamlNode* MapReader::find(const std::string& key) {
  asked_.insert(key);
  for (const auto& [name, value] : node_.entries)
    if (name == key) return value.kind == YamlNode::Kind::kNull ? nullptr : &value;
  return nullptr;
}

const YamlNode& MapReader::require(const std::string& key) {
  if (const YamlNode* value = find(key)) return *value;
  std::string hint;
  for (const auto& [name, value] : node_.entries)
    if (!asked_.count(name) && nearest(key, {name}) == name) hint = concat("; '", name, "' is there");
  throw InputError(node_.where, name(key), concat(has(key) ? "has no value" : "is missing", hint));
}

std::string MapReader::text(const std::string& key) { return require(key).text(name(key)); }
std::string MapReader::text(const std::string& key, const std::string& otherwise) {
  const YamlNode* value = find(key);
  return value ? value->text(name(key)) : otherwise;
}
std::int64_t MapReader::integer(const std::string& key, std::int64_t least, std::int64_t most) {
  return require(key).integer(name(key), least, most);
}
std::int64_t MapReader::integer_or(const std::string& key, std::int64_t otherwise, std::int64_t least,
                                   std::int64_t most) {
  const YamlNode* value = find(key);
  return value ? value->integer(name(key), least, most) : otherwise;
}
double MapReader::number(const std::string& key) { return require(key).number(name(key)); }
double MapReader::number_or(const std::string& key, double otherwise) {
  const YamlNode* value = find(key);
  return value ? value->number(name(key)) : otherwise;
}
bool MapReader::boolean_or(const std::string& key, bool otherwise) {
  const YamlNode* value = find(key);
  return value ? value->boolean(name(key)) : otherwise;
}
std::vector<std::string> MapReader::texts_or_none(const std::string& key) {
  const YamlNode* value = find(key);
  return value ? value->texts(name(key)) : std::vector<std::string>{};
}
std::vector<int> MapReader::integers(const std::string& key, int least, int most) {
  return require(key).integers(name(key), least, most);
}
Bytes MapReader::bytes(const std::string& key) {
  const YamlNode& value = require(key);
  return parse_bytes(value.text(name(key)), value.where, name(key));
}
Bytes MapReader::bytes_or(const std::string& key, Bytes otherwise) {
  return find(key) ? bytes(key) : otherwise;
}
Seconds MapReader::seconds(const std::string& key) {
  const YamlNode& value = require(key);
  return parse_seconds(value.text(name(key)), value.where, name(key));
}
Seconds MapReader::seconds_or(const std::string& key, Seconds otherwise) {
  return find(key) ? seconds(key) : otherwise;
}
BytesPerSecond MapReader::bandwidth(const std::string& key) {
  const YamlNode& value = require(key);
  return parse_bandwidth(value.text(name(key)), value.where, name(key));
}
BytesPerSecond MapReader::bandwidth_or(const std::string& key, BytesPerSecond otherwise) {
  return find(key) ? bandwidth(key) : otherwise;
}
FlopsPerSecond MapReader::flops(const std::string& key) {
  const YamlNode& value = require(key);
  return parse_flops(value.text(name(key)), value.where, name(key));
}
FlopsPerSecond MapReader::flops_or(const std::string& key, FlopsPerSecond otherwise) {
  return find(key) ? flops(key) : otherwise;
}

int MapReader::one_of(const std::string& key, const std::vector<std::string>& names) {
  const YamlNode& value = require(key);
  const std::string given = value.text(name(key));
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == given) return static_cast<int>(i);
  std::string list;
  for (const std::string& n : names) list += (list.empty() ? "" : ", ") + n;
  throw InputError(value.where, name(key),
                   concat("expected one of ", list, ", got '", shown(given), "'", did_you_mean(given, names)));
}
int MapReader::one_of_or(const std::string& key, const std::vector<std::string>& names, int otherwise) {
  return find(key) ? one_of(key, names) : otherwise;
}

void MapReader::finish() const {
  for (const auto& [key, value] : node_.entries) {
    if (asked_.count(key)) continue;
    const std::vector<std::string> known(asked_.begin(), asked_.end());
    std::string hint = did_you_mean(key, known);
    if (hint.empty() && !known.empty()) {
      hint = "; known here: ";
      for (std::size_t i = 0; i < known.size(); ++i) hint += (i ? ", " : "") + known[i];
    }
    throw InputError(value.where, name(shown(key)), "unknown key" + hint);
  }
}

void MapReader::fail(const std::string& key, const std::string& what) const {
  for (const auto& [name_, value] : node_.entries)
    if (name_ == key) throw InputError(value.where, name(key), what);
  throw InputError(node_.where, name(key), what);
}

}  // namespace hpplan
