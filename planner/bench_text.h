// The tables of nccl-tests and nccom-test output as they stand in the text, nothing
// concluded yet. For bench_import.cc.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/spec/error.h"

namespace hpplan {

struct RawBenchRow {
  double size = 0, seconds = 0;
  std::optional<double> algbw, busbw;  // as printed
  int line = 0;
};

struct RawBenchTable {
  std::string tool;
  int line = 0;          // of its header
  std::string named;     // line above it that may name the operation, "" none
  int listed_ranks = 0;  // in the device list above it
  bool reduces = false;  // the rows name a reduction operator
  std::vector<RawBenchRow> rows;
  std::vector<std::string> notes;
};

struct RawBench {
  std::vector<RawBenchTable> tables;
  int failed_line = 0;  // where the tool reports errors
};

// A whole finite number not below 0.
std::optional<double> bench_number(const std::string& text);

// Text of either tool, or the JSON report of nccom-test. Throws InputError for a time
// unit or a JSON that makes no sense; a text without tables gives none.
RawBench read_bench_text(const std::string& text, const std::string& file);

}  // namespace hpplan
