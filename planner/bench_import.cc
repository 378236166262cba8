#include "planner/bench_import.h"

#include <algorithm>
#include <cmath>
#include <regex>

#include "planner/bench_text.h"
#include "planner/spec/yaml_reader.h"

namespace hpplan {
namespace {

struct OpName {
  const char* pattern;
  Collective op;
};
const OpName kOpNames[] = {
    {"reduce_?scatter|redsct", Collective::kReduceScatter},
    {"all_?reduce|allr(?![a-z])", Collective::kAllReduce},
    {"all_?gather|allg(?![a-z])", Collective::kAllGather},
    {"all_?to_?all|alltoall|a2a", Collective::kAllToAll},
    {"send_?recv|sendrecv|\\bshift\\b|permute", Collective::kShift},
};

std::optional<Collective> op_in(const std::string& text) {
  for (const OpName& name : kOpNames)
    if (std::regex_search(text, std::regex(name.pattern, std::regex::icase)))
      return name.op;
  return std::nullopt;
}

// busbw / algbw of an operation.
double bus_factor(Collective op, int n) {
  switch (op) {
    case Collective::kAllReduce:
      return 2.0 * (n - 1) / n;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
      return static_cast<double>(n - 1) / n;
    case Collective::kShift:
      return 1;
  }
  return 1;
}

// Printed bandwidth must follow from size and time, in GB or GiB; else a unit is wrong.
// Small printed values are rounded away.
void check_units(const RawBenchTable& table, const std::string& file) {
  for (const RawBenchRow& row : table.rows) {
    if (row.size <= 0 || row.seconds <= 0 || !row.algbw || *row.algbw < 0.5) continue;
    const double ratio = *row.algbw * 1e9 / (row.size / row.seconds);
    if (ratio > 0.9 && ratio < 1.1) continue;
    throw InputError(
        {file, row.line, 1}, "algbw",
        concat("size / time is ", row.size / row.seconds / 1e9, " GB/s where ",
               *row.algbw, " is printed: a column is mislabelled or in another unit"));
  }
}

std::optional<double> bus_ratio(const RawBenchTable& table) {
  std::vector<double> ratios;
  for (const RawBenchRow& row : table.rows)
    if (row.algbw && row.busbw && *row.algbw >= 1)
      ratios.push_back(*row.busbw / *row.algbw);
  if (ratios.empty()) return std::nullopt;
  std::nth_element(ratios.begin(),
                   ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2),
                   ratios.end());
  return ratios[ratios.size() / 2];
}

// Ranks whose factor the ratio is; 0 when it is none's.
int ranks_of_ratio(Collective op, double ratio) {
  const double share = op == Collective::kAllReduce ? ratio / 2 : ratio;  // (n-1)/n
  if (op == Collective::kShift || share <= 0.4 || share >= 0.9999) return 0;
  const int n = static_cast<int>(std::lround(1 / (1 - share)));
  return std::abs(bus_factor(op, n) / ratio - 1) < 0.01 ? n : 0;
}

BenchTable conclude(const RawBenchTable& raw, const RawBench& text,
                    const std::string& file, const BenchHints& hints) {
  const Location where{file, raw.line, 1};
  check_units(raw, file);
  const std::optional<double> ratio = bus_ratio(raw);
  BenchTable table;
  table.tool = raw.tool;
  table.where = where;
  table.notes = raw.notes;

  std::optional<Collective> op = hints.op;
  std::string how = "as given";
  if (!op && !raw.named.empty()) {
    op = op_in(raw.named);
    how = "named in the text";
  }
  if (!op && text.tables.size() == 1) {
    const std::size_t slash = file.find_last_of('/');
    op = op_in(slash == std::string::npos ? file : file.substr(slash + 1));
    how = "from the file's name";
  }
  if (!op && ratio && *ratio > 1.01) {
    op = Collective::kAllReduce;  // the only one above 1
    how = "from busbw / algbw";
  }
  if (!op)
    throw InputError(where, "",
                     "nothing tells which collective this is: give it as OP:RANKS:FILE, "
                     "OP one of all_reduce, "
                     "all_gather, reduce_scatter, all_to_all, shift");
  table.op = *op;

  const int listed = raw.listed_ranks;
  const int by_ratio = ratio ? ranks_of_ratio(*op, *ratio) : 0;
  if (hints.ranks && listed > 0 && *hints.ranks != listed)
    throw InputError(where, "",
                     concat(*hints.ranks, " ranks were given, the text lists ", listed));
  table.ranks = hints.ranks ? *hints.ranks : listed > 0 ? listed : by_ratio;
  table.how = concat(to_string(*op), " ", how, "; ", table.ranks, " ranks ",
                     hints.ranks  ? "as given"
                     : listed > 0 ? "listed in the text"
                                  : "from busbw / algbw");
  if (table.ranks < 2)
    throw InputError(where, "",
                     concat("nothing tells how many ranks took part: give it as ",
                            to_string(*op), ":RANKS:FILE"));
  if (ratio) {
    const double expected = bus_factor(*op, table.ranks);
    if (std::abs(*ratio / expected - 1) > 0.02)
      throw InputError(where, "busbw",
                       concat("busbw / algbw is ", *ratio, ", but ", to_string(*op),
                              " over ", table.ranks, " ranks has ", expected,
                              ": the operation or the rank count is mislabelled"));
  }
  if (raw.reduces && (*op == Collective::kAllGather || *op == Collective::kAllToAll ||
                      *op == Collective::kShift))
    throw InputError(
        where, "redop",
        concat("the rows name a reduction, which ", to_string(*op), " has none of"));
  for (const RawBenchRow& row : raw.rows)
    if (row.size > 0 && row.seconds > 0)
      table.rows.push_back({Bytes(row.size), Seconds(row.seconds), row.line});
  if (text.failed_line > 0)
    table.notes.push_back(concat("line ", text.failed_line, ": the tool reports errors"));
  return table;
}

}  // namespace

std::pair<BenchHints, std::string> parse_bench_argument(const std::string& argument) {
  BenchHints hints;
  const std::size_t colon = argument.find(':');
  if (colon == std::string::npos) return {hints, argument};
  for (const Collective op :
       {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter,
        Collective::kAllToAll, Collective::kShift})
    if (argument.substr(0, colon) == to_string(op)) hints.op = op;
  if (!hints.op) return {hints, argument};
  std::string rest = argument.substr(colon + 1);
  const std::size_t second = rest.find(':');
  if (second != std::string::npos)
    if (const auto ranks = bench_number(rest.substr(0, second));
        ranks && *ranks >= 2 && *ranks <= 1 << 20) {
      hints.ranks = static_cast<int>(*ranks);
      rest = rest.substr(second + 1);
    }
  return {hints, rest};
}

bool looks_like_bench(const std::string& text) {
  return text.find("algbw") != std::string::npos &&
         text.find("busbw") != std::string::npos;
}

std::vector<BenchTable> import_bench(const std::string& text, const std::string& file,
                                     const BenchHints& hints) {
  check_text(text, file);
  const RawBench raw = read_bench_text(text, file);
  if (raw.tables.empty())
    throw InputError({file}, "",
                     "is output of neither nccl-tests nor nccom-test: no table header "
                     "with size, time and busbw");
  if (raw.tables.size() > 1 && hints.op)
    throw InputError({file, raw.tables[1].line, 1}, "",
                     concat("a second table, but one operation was given for the file: "
                            "cut it into files of one table"));
  std::vector<BenchTable> tables;
  for (const RawBenchTable& table : raw.tables) {
    if (table.rows.empty()) {
      if (raw.failed_line > 0)
        throw InputError({file, raw.failed_line, 1}, "",
                         "the run failed: the tool reports errors and no times");
      throw InputError({file, table.line, 1}, "",
                       "a table header without a row of figures below it");
    }
    tables.push_back(conclude(table, raw, file, hints));
  }
  return tables;
}

}  // namespace hpplan
