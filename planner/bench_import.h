// Output of nccl-tests and nccom-test -> tables of (size, time) by collective and rank
// count.
//
// What such a text leaves out is worked out and said in `how`: the operation from its
// name in the text or the file's name, the ranks from the device list or from printed
// busbw / algbw, which is 2(n-1)/n for an all-reduce, (n-1)/n for all-gather,
// reduce-scatter and all-to-all, and 1 for send/recv. Printed bandwidths are used for
// that and to check the units; times and sizes alone are kept (nccom-test prints GiB/s in
// some versions, GB/s in others).
//
// Refused with InputError: a text that is neither tool's, bandwidths that do not follow
// from size and time, a ratio that contradicts the operation or the rank count, an
// operation that nothing tells.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/spec/error.h"
#include "planner/spec/rates.h"

namespace hpplan {

struct BenchRow {
  Bytes size;  // as the tools count it: whole tensor, gathered output, send buffer
  Seconds time;
  int line = 0;
  // How many times as long the wire took as for one group alone, because sibling groups ran
  // at once (AxisPath::contention).
  double contention = 1;
};

struct BenchTable {
  std::string tool;  // "nccl-tests", "nccom-test"
  Location where;    // of its header
  Collective op = Collective::kAllReduce;
  int ranks = 0;
  std::string how;                 // how op and ranks are known
  std::vector<BenchRow> rows;      // sizes above 0, in the order of the text
  std::vector<std::string> notes;  // rows left out, failures
};

// What the caller knows of a file; each overrules guessing and is checked against the
// text.
struct BenchHints {
  std::optional<Collective> op;
  std::optional<int> ranks;
};

// "all_to_all:8:PATH", "all_reduce:PATH" or "PATH".
std::pair<BenchHints, std::string> parse_bench_argument(const std::string& argument);

// Whether the text looks like one of the two tools at all.
bool looks_like_bench(const std::string& text);

std::vector<BenchTable> import_bench(const std::string& text, const std::string& file,
                                     const BenchHints& hints = {});

}  // namespace hpplan
