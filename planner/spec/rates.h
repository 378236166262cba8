// How fast a device and a fabric are, as curves with a source for every number. Read from
// profiles/devices/*.yaml and profiles/devices/fabrics/*.yaml; written by `hpplan calibrate`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/spec/model.h"
#include "planner/spec/units.h"

namespace hpplan {

// What a fitted number rests on.
struct Confidence {
  int points = 0;    // measurements; 0: not fitted by us
  double error = 0;  // mean relative error of the fit over them
};

// Fraction of peak a GEMM of m x n x k reaches: emax * m/(m+m0) * n/(n+n0) * k/(k+k0).
struct GemmRates {
  double emax = 0.8, m0 = 100, n0 = 120, k0 = 100;
  Source source = Source::kAssumed;
  Confidence confidence;
};

// Fraction of peak attention reaches: emax(head_dim) * Q * kv/(kv+kv0), Q = wave quantization over
// `units` of tile_rows query rows.
struct AttentionRates {
  double emax_d64 = 0.55, emax_d80 = 0.55, emax_d128 = 0.66;
  int tile_rows = 128;
  int tile_rows_small = 0;             // head_dim up to 80; 0: as tile_rows
  double kv0 = 500;
  Source source = Source::kAssumed;
  Confidence confidence;
};

struct DeviceRates {
  std::string name;
  FlopsPerSecond peak_bf16, peak_fp8;  // dense; fp8 0: no such units
  FlopsPerSecond peak_fp32;            // 0: a quarter of bf16 is assumed
  BytesPerSecond memory_bandwidth;
  double memory_efficiency = 0.85;
  int units = 1;                       // SMs, for wave quantization
  GemmRates gemm, gemm_fp8;
  AttentionRates attention;
  AttentionRates attention_fa2;        // emax 0: same as attention
  Source peak_source = Source::kDatasheet;
  std::string source;
};

enum class Collective : std::uint8_t { kAllReduce, kAllGather, kReduceScatter, kAllToAll, kShift };
std::string_view to_string(Collective op);

// t = a + w/B + c*sqrt(w), w = wire bytes of one rank: all-reduce 2(n-1)/n*S, all-gather, reduce-scatter
// and all-to-all (n-1)/n*S, shift S. Measured with one group on the first n devices.
struct CollectiveCurve {
  Collective op = Collective::kAllReduce;
  int n = 2;
  Seconds a;
  BytesPerSecond bandwidth;
  double c = 0;  // seconds per square root of a byte
  Source source = Source::kAssumed;
  Confidence confidence;
};

struct FabricRates {
  std::string name;
  // One-direction capacities of the resources the contention model counts, GB/s; 0: not a limit.
  BytesPerSecond device;   // what one device can send
  BytesPerSecond link;     // one ring or mesh link
  BytesPerSecond host;     // staging through host memory, per socket
  BytesPerSecond uplink;   // PCIe switch to root
  BytesPerSecond cross;    // socket to socket
  BytesPerSecond network;  // NIC of one device
  Source source_tag = Source::kAssumed;  // of the capacities and of curves without their own
  std::vector<CollectiveCurve> curves;
  // Collectives that the library sends straight to every peer, where others pass them on
  // round a ring: fewer hops, and more bytes over a link that many pairs share.
  std::vector<Collective> direct;
  std::string source;
};

}  // namespace hpplan
