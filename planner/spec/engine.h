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
  bool with_ulysses = true;    // the mode also works when ulysses > 1
  std::optional<RowPolicy> rows_with_ring;  // the row policy when ring > 1, where it differs
  bool kv_first = false;       // pads KV heads first, then query heads by the ratio (GQA)
  std::vector<std::string> models;  // only for these model profiles; empty: any
};

// Where text encoder and decoder are while the transformer denoises.
enum class ComponentPlace : std::uint8_t {
  kResident,       // on the device, whether or not they fit
  kHostWhenShort,  // on the host when they do not fit beside the transformer
  kElsewhere,      // another program's: embeddings come in, latents go out
};
std::string_view to_string(ComponentPlace place);

// What one attention kernel of an engine can do.
struct AttentionKernel {
  std::string name;            // as StackRates::attention_kernel names it
  bool sequence = true;        // takes part in sequence parallelism at all
  bool lse = true;             // returns the log-sum-exp a ring needs
  bool mask = true;            // takes a key mask
  int index_bits = 0;          // width of its row offsets: 32, 64; 0 not known
};

// Software costs of a denoise step; see planner/cost.h for the formulas. Counts of full-tensor reads or
// writes a block, and host time.
struct StackRates {
  std::string name;            // "neuron-eager"
  double passes_d = 16;        // over D-wide rows, not divided by tp
  double passes_f = 3.7;       // over F-wide rows
  double passes_a = 8;         // over A-wide rows
  double passes_ulysses_pack = 16;
  bool ulysses_fused = false;         // Q, K and V in one all-to-all; else one each
  double passes_ring_merge = 10;  // fp32
  Seconds host_per_block;
  Seconds host_per_collective;
  Seconds host_per_hop;
  bool branches_in_sequence = false;  // guidance branches run one after the other
  std::string attention_kernel;       // "", "fa2": picks the device's attention rates
  Source source = Source::kAssumed;
};

// A fixed table of ranks an engine uses instead of its rank order where degrees fit it (the row and column
// lists of the Neuron plugin of vLLM-Omni on trn2). Used with a sequence degree above 1 on machines of that
// rule that have exactly the ranks listed.
struct RankGrid {
  GroupRule group_rule = GroupRule::kAny;
  std::vector<std::vector<int>> lines;   // ranks, one list a line, equal lengths
  std::vector<Axis> along;               // axes inside a line, fastest first; their degrees fill the line
  std::vector<Axis> across;              // axes over the lines, fastest first
  bool all_lines = false;                // the across degrees use every line; else the first so many
};

// One way of running an engine: eager, compiled, on another vendor's software.
struct NamedStack {
  std::string name;
  std::vector<std::string> vendors;  // topologies whose vendor it is for; empty: any
  StackRates rates;
};

struct Engine {
  std::string name;
  std::string title;
  std::vector<std::string> aliases;
  std::vector<HeadMode> head_modes;      // the first is the default
  bool kv_replication = true;            // kv_heads < tp: each kv head on tp / kv_heads ranks
  bool kv_replication_ulysses = false;   // the same for local kv heads < ulysses
  bool tp = true;
  bool tp_with_sequence = true;          // tp > 1 together with ring or ulysses > 1
  bool heads_checked_globally = false;   // H % U on all heads, tp ignored (xDiT)
  bool ring_p2p = true;
  bool ring_allgather = true;
  bool ring_with_ulysses = true;
  bool allgather_with_ulysses = true;    // K/V gather beside ulysses
  bool gather_in_blocks = false;         // gathers K/V at once, attends block by block and merges as a ring does
  bool cfg = true;
  int cfg_max = 2;                       // 0: as many as the request has branches
  bool explicit_mesh = false;            // takes any rank grid; else rank_order is what it builds
  std::vector<Axis> rank_order;          // fastest-varying first, of the default mesh
  std::vector<RankGrid> rank_grids;      // the first that fits takes the place of rank_order
  bool replicates_uneven_text = false;   // joint text rows that do not divide are kept whole on every rank
  bool adaln_divided = true;             // modulation weights divided by tp
  bool loads_before_sharding = false;    // the whole checkpoint lands on a device before it is cut
  bool encoder_sharded = false;          // text encoder folded over all ranks
  ComponentPlace components = ComponentPlace::kResident;
  std::vector<std::string> vendors;      // accelerators it runs on; empty: any
  // Memory beside weights and row-dependent activations, from a measured row; 0: the formula alone.
  Bytes memory_fixed;
  double memory_activation_factor = 1;   // measured / textbook activation bytes
  Source memory_source = Source::kAssumed;
  std::vector<NamedStack> stacks;        // the first that fits the vendor is the default
  StackRates stack;                      // the one in use: stacks[0] once read, then what use_stack() chose
  std::vector<AttentionKernel> attention_kernels;  // empty: nothing known, nothing refused
  // By reading (xDiT): ulysses and ring groups are runs of consecutive ranks, tp or not.
  bool sequence_groups_ignore_tp = false;
  bool ring_with_mask = true;            // key masks (padded rows) together with ring > 1
  bool ring_with_joint = true;           // joint text-image attention together with ring > 1
  bool ring_with_gqa = true;             // kv_heads < heads together with ring > 1
  bool shards_row_index = true;          // per-row index tensors (modality of a packed row) are cut with the rows
  bool fuses_adapters_sharded = false;   // adapters (LoRA) can be fused into weights cut by tp or quantized
  bool masks_padding = false;            // masks padded rows itself, whatever the model does
  int row_multiple = 1;                  // padded rows of a rank are a multiple of this
  int index_bits = 0;                    // offsets of its linear and elementwise kernels: 32, 64; 0 not known
  std::string source;
};

// Puts the stack of that name in use, or, when name is empty, the first one for the vendor. Throws
// InputError when the engine has no such stack, or none for that vendor.
void use_stack(Engine& engine, const std::string& vendor, const std::string& name = "");
// Keeps the stack in use if it is for the vendor, else takes the first that is; an engine that does not run
// there at all keeps what it has (the rules then refuse it).
void fit_stack(Engine& engine, const std::string& vendor);

}  // namespace hpplan
