// The plan and the measurement: the two files that planner and runtime meet in. Plain values; plan_yaml.h
// reads and writes them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/spec/engine.h"
#include "planner/spec/mesh.h"
#include "planner/spec/model.h"
#include "planner/spec/topology.h"
#include "planner/spec/workload.h"

namespace hpplan {


enum class Severity : std::uint8_t { kError, kWarning };

// What one rule says about one mesh. code is stable ("heads-tp", "ulysses-heads", "fabric-routable").
struct Finding {
  Severity severity = Severity::kError;
  std::string code;
  std::string message;     // with the numbers put in
  std::string suggestion;  // the nearest legal values; may be empty
  std::map<std::string, std::string> details;
};

// How heads and rows fall on the ranks of a mesh; derived once, used by cost, memory, plan and runtime.
struct Split {
  int local_heads = 0;          // h = H / T
  int padded_heads = 0;         // h padded to a multiple of U (== local_heads when exact)
  int busiest_heads = 0;        // heads the busiest rank computes: padded_heads / U
  HeadMode mode;                // of the engine, that makes it legal
  std::int64_t rows = 0;        // S
  std::int64_t padded_rows = 0; // S padded to a multiple of U*R when the mode pads
  std::int64_t busiest_rows = 0;
};

// Seconds of one denoise step by cause; the parts sum to step.
struct CostBreakdown {
  Seconds compute;       // GEMM and elementwise
  Seconds attention;
  Seconds tp;            // exposed tensor-parallel collectives
  Seconds ulysses;       // all-to-all with its packing
  Seconds ring_exposed;  // K/V transfer or gather not hidden, and the merge
  Seconds ring_hidden;   // in no sum: transfer time covered by attention
  Seconds cfg;           // exchange of guidance branches
  Seconds overhead;      // host dispatch beyond the device time
  Seconds step() const { return compute + attention + tp + ulysses + ring_exposed + cfg + overhead; }
};

struct Prediction {
  Seconds step;
  Seconds low, high;     // the band
  Source source = Source::kAssumed;  // weakest the number rests on
  CostBreakdown breakdown;
  std::vector<std::string> notes;    // "peer access unknown: 1.9 s if it works, 7.4 s if not"
};

// Peak bytes of the fullest rank, by stage.
struct MemoryEstimate {
  Bytes limit;
  Bytes load, text, denoise, decode;
  Bytes host;            // of one operating-system node while loading
  // Parts of denoise, by name ("weights", "adaln", "activations", "kv", "communicators", ...).
  std::vector<std::pair<std::string, Bytes>> parts;
  Bytes peak() const;
  bool fits() const { return peak() <= limit; }
};

// What a real run gave: times or an error text, never both.
struct Measurement {
  std::string error;             // "" when the run succeeded
  Seconds step_median, step_min, step_max;
  Seconds step_spread;           // median absolute deviation
  int iterations = 0;
  int warmup = 0;
  Bytes peak_memory;             // of the fullest rank
  std::map<std::string, double> phases_s;        // median seconds by phase
  std::map<std::string, double> wire_bytes;      // sent by one rank in a step, by axis
  std::map<std::string, std::int64_t> collectives;  // count in a step, "tp/all_reduce" -> n
  std::vector<double> steps_s;   // every timed step
  std::string plan_hash;
  std::map<std::string, std::string> software;   // name -> version
  std::string host;
  std::string file;              // where it was read from
};

struct Candidate {
  Mesh mesh;
  RingMethod ring_method = RingMethod::kP2p;
  std::string placement;         // "row:RR col:TR core:TT"; "" for an explicit mesh
  Split split;
  Prediction predicted;
  MemoryEstimate memory;
  std::vector<Finding> warnings;
  std::optional<Measurement> measured;
};

// One refused (tp, ring, ulysses[, cfg]) and why.
struct Rejection {
  Degrees degrees;
  RingMethod ring_method = RingMethod::kP2p;
  Finding finding;
  int placements = 1;            // how many placements fell to it
};

struct Plan {
  static constexpr int kSchema = 1;
  ModelSpec model;
  Workload workload;
  Rows rows;
  Topology topology;
  Engine engine;
  FabricRules fabric_rules = FabricRules::kNotApplicable;
  Candidate chosen;
  std::vector<Candidate> runners_up;
  std::vector<Candidate> candidates;     // all legal ones, best first; filled for --explain
  std::vector<Rejection> rejections;     // all, in a stable order
  std::int64_t placements_examined = 0;
  std::vector<std::string> notes;        // idle devices, indistinguishable candidates, ...
  std::vector<std::string> hosts;        // host of every rank, where the machine has several; may be empty
  std::string model_hash, workload_hash, topology_hash;  // "sha256:..." of the inputs as they were read
  std::string hash;                      // "sha256:..." of everything above it in the file
};

}  // namespace hpplan
