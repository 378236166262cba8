#include "planner/bench_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <regex>
#include <sstream>

#include "planner/spec/yaml_reader.h"

namespace hpplan {

std::optional<double> bench_number(const std::string& text) {
  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) ||
      value < 0)
    return std::nullopt;
  return value;
}

namespace {

using Words = std::vector<std::string>;

Words words_of(const std::string& line) {
  std::istringstream in(line);
  Words words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

double seconds_of(const std::string& unit, const Location& where) {
  if (unit == "us") return 1e-6;
  if (unit == "ms") return 1e-3;
  if (unit == "ns") return 1e-9;
  if (unit == "s") return 1;
  throw InputError(
      where, "",
      concat("the unit of the time column: expected us, ms, ns or s, got '", unit, "'"));
}

// nccl-tests: cells line up with the header from the right, for an empty redop cell
// leaves no word.
struct NcclHeader {
  std::size_t from_right = 0;  // of the first time column
  bool has_redop = false;
  double unit = 1e-6;
};

std::optional<NcclHeader> nccl_header(const std::string& line) {
  Words words = words_of(line);
  if (!words.empty() && words[0] == "#") words.erase(words.begin());
  const auto time = std::find(words.begin(), words.end(), "time");
  const auto has = [&](const char* word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  if (time == words.end() || !has("size") || !has("algbw") || !has("busbw"))
    return std::nullopt;
  return NcclHeader{static_cast<std::size_t>(words.end() - time), has("redop"), 1e-6};
}

// "time:avg(us)" -> {"time:avg", "us"}.
std::pair<std::string, std::string> titled(const std::string& word) {
  const std::size_t open = word.find('(');
  if (open == std::string::npos || word.back() != ')') return {word, ""};
  return {word.substr(0, open), word.substr(open + 1, word.size() - open - 2)};
}

struct NccomHeader {
  int size = -1, time = -1, algbw = -1, busbw = -1;
  double unit = 1e-6;
};

std::optional<NccomHeader> nccom_header(const Words& words, const Location& where) {
  NccomHeader h;
  int rank_of_time = 9;
  for (int i = 0; i < static_cast<int>(words.size()); ++i) {
    const auto [title, unit] = titled(words[static_cast<std::size_t>(i)]);
    if (title == "size") h.size = i;
    if (title == "algbw") h.algbw = i;
    if (title == "busbw") h.busbw = i;
    const int rank = title == "time:avg"   ? 0
                     : title == "time"     ? 1
                     : title == "time:p50" ? 2
                                           : 9;
    if (rank < rank_of_time) {
      rank_of_time = rank;
      h.time = i;
      h.unit = seconds_of(unit, where);
    }
  }
  return h.size < 0 || h.time < 0 ? std::nullopt : std::optional<NccomHeader>(h);
}

void read_nccl_row(const NcclHeader& header, const Words& words, int line,
                   RawBenchTable& table) {
  if (words.size() < header.from_right + 3) return;  // a message between the rows
  const auto size = bench_number(words[0]);
  const std::size_t at = words.size() - header.from_right;
  if (!size) return;
  const auto time = bench_number(words[at]);
  if (!time) {
    table.notes.push_back(
        concat("line ", line, ": no time for ", words[0], " B, left out"));
    return;
  }
  for (std::size_t i = 3; i < at && header.has_redop; ++i)
    if (words[i] == "sum" || words[i] == "prod" || words[i] == "max" ||
        words[i] == "min" || words[i] == "avg")
      table.reduces = true;
  table.rows.push_back({*size, *time * header.unit, bench_number(words[at + 1]),
                        bench_number(words[at + 2]), line});
}

void read_nccom_row(const NccomHeader& header, const Words& words, int line,
                    RawBenchTable& table) {
  if (words.empty() || !bench_number(words[0])) return;
  const auto cell = [&](int i) {
    return i >= 0 && i < static_cast<int>(words.size())
               ? bench_number(words[static_cast<std::size_t>(i)])
               : std::nullopt;
  };
  const auto size = cell(header.size), time = cell(header.time);
  if (!size || !time) {
    table.notes.push_back(
        concat("line ", line, ": no time for ", words[0], " B (a failed run), left out"));
    return;
  }
  table.rows.push_back(
      {*size, *time * header.unit, cell(header.algbw), cell(header.busbw), line});
}

RawBench read_lines(const std::string& text, const std::string& file) {
  static const std::regex kPrefix(R"(^\[\d+,\d+\](<std(out|err)>)?:?)");
  static const std::regex kName(R"(_perf\b|test starting)", std::regex::icase);
  static const std::regex kRank(R"(^#\s+Rank\s+\d+\b)");
  RawBench out;
  RawBenchTable next;  // what stands before its header
  std::optional<NcclHeader> nccl;
  std::optional<NccomHeader> nccom;
  std::istringstream in(text);
  int line = 0;
  const auto open = [&](const char* tool) {
    next.tool = tool;
    next.line = line;
    out.tables.push_back(std::move(next));
    next = {};
  };
  for (std::string raw; std::getline(in, raw);) {
    ++line;
    if (raw.size() > 4096) continue;
    const std::string text_line =
        std::regex_replace(raw, kPrefix, "", std::regex_constants::format_first_only);
    const Words words = words_of(text_line);
    if (words.empty()) continue;
    const Location where{file, line, 1};
    if (auto header = nccl_header(text_line)) {
      nccl = header;
      nccom.reset();
      open("nccl-tests");
    } else if (auto other = nccom_header(words, where)) {
      nccom = other;
      nccl.reset();
      open("nccom-test");
    } else if (words[0][0] == '#') {
      if (std::regex_search(text_line, kRank)) ++next.listed_ranks;
      if (std::regex_search(text_line, kName)) next.named = text_line;
      // The second header line has the units, the first bracket of a time column among
      // them.
      if (nccl && out.tables.back().rows.empty() &&
          text_line.find("(B)") != std::string::npos)
        for (const std::string& word : words)
          if (word.size() > 2 && word[0] == '(' && word != "(B)" &&
              word != "(elements)") {
            nccl->unit = seconds_of(word.substr(1, word.size() - 2), where);
            break;
          }
    } else if (text_line.find("errors found") != std::string::npos) {
      out.failed_line = line;
    } else if (nccl) {
      read_nccl_row(*nccl, words, line, out.tables.back());
    } else if (nccom) {
      if (text_line.rfind("Avg bus bandwidth", 0) == 0)
        nccom.reset();
      else
        read_nccom_row(*nccom, words, line, out.tables.back());
    }
  }
  return out;
}

// nccom-test --report-to-json-file: column titles as keys.
RawBench read_json(const std::string& text, const std::string& file) {
  const YamlNode root = parse_yaml(text, file);
  RawBench out;
  const YamlNode* results = nullptr;
  for (const auto& [key, value] : root.entries)
    if (key == "results") results = &value;
  if (results == nullptr || results->kind != YamlNode::Kind::kList)
    throw InputError(root.where, "results",
                     "expected the list `results` of a nccom-test report");
  out.tables.push_back({.tool = "nccom-test", .line = results->where.line});
  for (const YamlNode& node : results->items) {
    if (node.kind != YamlNode::Kind::kMap)
      throw InputError(node.where, "results",
                       concat("expected a map, got ", node.kind_text()));
    Words titles;
    for (const auto& [key, value] : node.entries) titles.push_back(key);
    const auto header = nccom_header(titles, node.where);
    if (!header)
      throw InputError(node.where, "results", "expected size(B) and time:avg(us)");
    const auto cell = [&](int i) -> std::optional<double> {
      if (i < 0) return std::nullopt;
      return bench_number(node.entries[static_cast<std::size_t>(i)].node.scalar);
    };
    const auto size = cell(header->size), time = cell(header->time);
    if (!size || !time) {
      out.tables.back().notes.push_back(
          concat("line ", node.where.line, ": no time, left out"));
      continue;
    }
    out.tables.back().rows.push_back({*size, *time * header->unit, cell(header->algbw),
                                      cell(header->busbw), node.where.line});
  }
  return out;
}

}  // namespace

RawBench read_bench_text(const std::string& text, const std::string& file) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && text[first] == '{' ? read_json(text, file)
                                                          : read_lines(text, file);
}

}  // namespace hpplan
