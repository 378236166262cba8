// Micro-benchmarks: single collectives, matrix products, attention calls and copies,
// timed alone. One file format for what `hprun --probe` measured and for what others
// published: a list of groups, each with a `kind`, the hardware it ran on, and rows whose
// lists belong together element by element.
//
//   - kind: collective    rows: {op, devices, size_bytes: [..], time_us: [..]}
//   - kind: gemm          rows: {dtype, n, k, m: [..], time_ms: [..]}           [m, k] x
//   [k, n]
//   - kind: attention     rows: {batch, heads, head_dim, seq: [..], time_ms: [..]}
//   - kind: elementwise   rows: {op: copy, bytes: [..], time_us: [..]}          read and
//   written
//
// Of a probe there are also, in hardware: device (a profile's name), topology, devices;
// in rows of collectives: axis, and the groups that ran at once, as devices of the
// machine; in rows of attention: dtype, and queries: [..] where they are not as many as
// keys; and the spread of every time. size_bytes as nccl-tests count it: the whole tensor
// of an all-reduce, the gathered output, the send buffer of one rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/spec/rates.h"
#include "planner/spec/workload.h"
#include "planner/spec/yaml_reader.h"

namespace hpplan {

// One time, median of several; of one probe the slowest rank's.
struct BenchPoint {
  double x = 0;  // bytes, rows or keys, as the series says
  Seconds time, spread;
};

struct CollectiveSeries {
  Collective op = Collective::kAllReduce;
  int ranks = 0;
  std::string axis;                      // "" where not known
  std::vector<std::vector<int>> groups;  // all at once; empty: one, alone
  std::vector<BenchPoint> points;        // x: bytes
  int line = 0;
};

struct GemmSeries {
  DType dtype = DType::kBf16;
  std::int64_t n = 0, k = 0;
  std::vector<BenchPoint> points;  // x: rows m
  int line = 0;
};

struct AttentionSeries {
  DType dtype = DType::kBf16;
  int batch = 1, heads = 0, head_dim = 0;
  std::vector<BenchPoint> points;  // x: keys
  std::vector<double> queries;     // one a point
  int line = 0;
};

struct CopySeries {
  std::vector<BenchPoint> points;  // x: bytes read and written
  int line = 0;
};

struct Microbench {
  std::string id, software;
  std::string device, topology;  // profiles' names; "" where the hardware is free text
  int devices = 0;               // of the topology
  std::string host;
  std::vector<CollectiveSeries> collectives;
  std::vector<GemmSeries> gemms;
  std::vector<AttentionSeries> attentions;
  std::vector<CopySeries> copies;
  int line = 0;
};

// Whether the document is a list of groups of such kinds.
bool is_microbench(const YamlNode& root);

// Throws InputError with the place for lists of different lengths, figures that are not
// above 0, unknown collectives. Groups of other kinds, keys that are not needed and rows
// without the lists above are passed over: publications differ.
std::vector<Microbench> parse_microbench(const YamlNode& root);

// The file of a probe; reads back as it was, one group a kind.
std::string microbench_to_yaml(const Microbench& probe);

}  // namespace hpplan
