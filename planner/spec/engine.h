// Engine: the software that will run the plan, as data: its head, row and rank-order rules and what its
// software costs. Read from profiles/engines/*.yaml. Sources: each file names the code or page it was
// read from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/spec/mesh.h"
#include "planner/spec/model.h"
#include "planner/spec/topology.h"
#include "planner/spec/workload.h"

namespace hpplan {

// What happens when TP-local heads do not divide by the ulysses degree.
enum class HeadPolicy : std::uint8_t {
  kStrict,       // refused
  kPadRealHead,  // padded to a multiple; every rank must keep a real head: pad < (h + pad) / u
  kPadAny,       // padded to a multiple, no limit; a rank may hold padding alone
  kUneven,       // ranks hold ceil or floor of h/u heads, nothing padded; each holds at least one
};
std::string_view to_string(HeadPolicy policy);

// What happens when the rows do not divide by the sequence degree.
enum class RowPolicy : std::uint8_t { kStrict, kPad, kUneven };
std::string_view to_string(RowPolicy policy);

struct HeadMode {              // an engine may have several, chosen by a flag of its own
  HeadPolicy policy = HeadPolicy::kStrict;
  RowPolicy rows = RowPolicy::kStrict;
  bool with_ring = true;       // the mode also works when ring > 1
  std::string flag;            // how the user turns it on ("ulysses_anything=True"); "" default mode
  bool pads_qkv = true;        // kPadRealHead/kPadAny: zero heads are sent and computed
};

// Software costs of a denoise step; see planner/cost.h for the formulas. Counts of full-tensor reads or
// writes a block, and host time.
struct StackRates {
  double passes_d = 16;        // over D-wide rows, not divided by tp
  double passes_f = 3.7;       // over F-wide rows
  double passes_a = 8;         // over A-wide rows
  double passes_ulysses_pack = 16;
  double passes_ring_merge = 10;  // fp32
  Seconds host_per_block;
  Seconds host_per_collective;
  Seconds host_per_hop;
  bool branches_in_sequence = false;  // guidance branches run one after the other
  std::string attention_kernel;       // "", "fa2": picks the device's attention rates
  Source source = Source::kAssumed;
};

struct Engine {
  std::string name;
  std::string title;
  std::vector<std::string> aliases;
  std::vector<HeadMode> head_modes;      // the first is the default
  bool kv_replication = true;            // kv_heads < tp: each kv head on tp / kv_heads ranks
  bool tp = true;
  bool tp_with_sequence = true;          // tp > 1 together with ring or ulysses > 1
  bool heads_checked_globally = false;   // H % U on all heads, tp ignored (xDiT)
  bool ring_p2p = true;
  bool ring_allgather = true;
  bool ring_with_ulysses = true;
  bool allgather_with_ulysses = true;    // K/V gather beside ulysses
  bool cfg = true;
  int cfg_max = 2;                       // 0: as many as the request has branches
  bool explicit_mesh = false;            // takes any rank grid; else rank_order is what it builds
  std::vector<Axis> rank_order;          // fastest-varying first, of the default mesh
  bool replicates_uneven_text = false;   // joint text rows that do not divide are kept whole on every rank
  bool adaln_divided = true;             // modulation weights divided by tp
  bool loads_before_sharding = false;    // the whole checkpoint lands on a device before it is cut
  bool encoder_sharded = false;          // text encoder folded over all ranks
  std::vector<std::string> vendors;      // accelerators it runs on; empty: any
  // Memory beside weights and row-dependent activations, from a measured row; 0: the formula alone.
  Bytes memory_fixed;
  double memory_activation_factor = 1;   // measured / textbook activation bytes
  Source memory_source = Source::kAssumed;
  StackRates stack;
  std::string source;
};

}  // namespace hpplan
