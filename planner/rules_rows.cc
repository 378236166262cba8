// Rows of every stream: which sequence degrees cut them, who pads, who holds uneven
// shares, what is kept whole, and how many rows 32-bit offsets reach.
#include <algorithm>

#include "planner/rules_parts.h"
#include "planner/spec/error.h"

namespace hpplan::rules {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Streams of which each rank holds a part. All packed streams are one sequence to the
// engine.
struct CutStream {
  std::string name;
  std::int64_t rows = 0;
  bool joint = false;
};

std::vector<CutStream> cut_streams(const Rows& rows) {
  std::vector<CutStream> cut;
  CutStream* packed = nullptr;
  cut.reserve(rows.streams.size());
  for (const StreamRows& s : rows.streams) {
    // Cross-attention keys and values are whole on every rank: never cut, no exchange.
    if (s.kind == StreamKind::kContext || s.rows == 0) continue;
    if (s.kind == StreamKind::kJoint) {
      cut.push_back({s.name, s.rows, true});
    } else if (packed == nullptr) {
      cut.push_back({s.name, s.rows, false});
      packed = &cut.back();
    } else {
      packed->name += "+" + s.name;
      packed->rows += s.rows;
    }
  }
  return cut;
}

std::int64_t padding_of(std::int64_t rows, std::int64_t unit) {
  return ceil_div(rows, unit) * unit - rows;
}

// Joint rows that do not divide, or are fewer than the ranks, are kept whole by engines
// that can.
bool kept_whole(const Engine& engine, const CutStream& s, int degree) {
  return s.joint && engine.replicates_uneven_text && s.rows % degree != 0;
}

std::string rows_text(const CutStream& s, const Degrees& d) {
  std::string by = concat(d.ulysses() > 1 ? "ulysses " : "ring ",
                          d.ulysses() > 1 ? d.ulysses() : d.ring());
  if (d.ring() > 1 && d.ulysses() > 1) by += concat(" x ring ", d.ring());
  return concat(s.rows, " rows of ", s.name, ", and ", s.rows, " % ", d.sequence(), " = ",
                s.rows % d.sequence(), " (", by, ")");
}

// Sequence degrees up to the machine that cut every stream evenly.
std::vector<int> even_degrees(const Problem& problem) {
  std::vector<int> even;
  const std::vector<CutStream> streams = cut_streams(problem.rows);
  for (int q = 1; q <= std::min(problem.topology.devices(), 128); ++q)
    if (std::all_of(streams.begin(), streams.end(), [&](const CutStream& s) {
          return s.rows % q == 0 || kept_whole(problem.engine, s, q);
        }))
      even.push_back(q);
  return even;
}

// The nearest frame counts, by the model's own frame rule, whose rows divide by the
// sequence degree.
std::string even_frames(const Problem& problem, int degree) {
  const ModelSpec& model = problem.model;
  if (problem.workload.seq_len || problem.workload.frames <= 1) return "";
  const auto pixel = std::find_if(
      model.streams.begin(), model.streams.end(),
      [](const StreamSpec& s) { return s.pixels_h > 0 && s.frame_group > 0; });
  if (pixel == model.streams.end()) return "";
  constexpr int kSteps = 12;  // each way; further off it is another video
  std::vector<int> found;
  for (int step = 1; step <= kSteps && found.empty(); ++step) {
    for (const int sign : {-1, 1}) {
      Workload other = problem.workload;
      other.frames += sign * step * pixel->frame_group;
      if (other.frames < pixel->frame_first || other.frames < 1) continue;
      const std::vector<CutStream> streams = cut_streams(rows_of(model, other));
      if (std::all_of(streams.begin(), streams.end(), [&](const CutStream& s) {
            return s.rows % degree == 0 || kept_whole(problem.engine, s, degree);
          }))
        found.push_back(other.frames);
    }
  }
  const std::string rule = concat(pixel->frame_group, "k+", pixel->frame_first);
  if (found.empty())
    return concat("; no ", rule, " frame count within ", kSteps, " steps of ",
                  problem.workload.frames, " gives rows that divide by ", degree, " too");
  return concat("; or ", list(found), " frames (", rule, ", rows divide by ", degree,
                ")");
}

// Flags of the modes that take any rows here.
std::string uneven_modes(const Problem& problem, const Degrees& degrees) {
  std::string names;
  if (equal_shapes_only(problem.topology)) return names;
  for (const HeadMode& m : problem.engine.head_modes)
    if (rows_of_mode(m, degrees) == RowPolicy::kUneven && !m.flag.empty() &&
        mode_is_for(m, problem.model) && !refuse_mode(problem, degrees, m))
      names += (names.empty() ? "" : " or ") + m.flag;
  return names;
}

std::string even_suggestion(const Problem& problem, const Degrees& degrees) {
  const int degree = degrees.sequence();
  std::string text = concat("sequence degrees that cut every stream evenly: ",
                            with_nearest(even_degrees(problem), degree));
  const std::string uneven = uneven_modes(problem, degrees);
  if (!uneven.empty()) text += concat("; ", uneven, " takes any rows");
  return text + even_frames(problem, degree);
}

enum class RowFault : std::uint8_t {
  kNone,
  kShort,     // a rank would hold no row
  kStrict,    // the mode neither pads nor cuts unevenly
  kUnmasked,  // padding would be attended
  kRingMask,  // the engine masks padding, but not in a ring
  kRingTail,  // the padding would not stand last
  kUneven,    // the fabric takes equal shapes only
};

std::int64_t padding_for(const Problem& problem, const CutStream& s, int degree) {
  return padding_of(s.rows,
                    static_cast<std::int64_t>(degree) * problem.engine.row_multiple);
}

// What speaks against cutting one stream under a mode.
RowFault judge_rows(const Problem& problem, const Degrees& degrees, RowPolicy policy,
                    const CutStream& s, bool last) {
  const Engine& engine = problem.engine;
  const int q = degrees.sequence();
  if (kept_whole(engine, s, q)) return RowFault::kNone;
  // Padding gives every rank a row of a joint stream; the main sequence must reach
  // every rank by itself.
  if (s.rows < q && (policy != RowPolicy::kPad || !s.joint)) return RowFault::kShort;
  switch (policy) {
    case RowPolicy::kStrict:
      return s.rows % q == 0 ? RowFault::kNone : RowFault::kStrict;
    case RowPolicy::kPad:
      if (padding_for(problem, s, q) == 0) return RowFault::kNone;
      if (!problem.model.masks_padding && !engine.masks_padding)
        return RowFault::kUnmasked;
      if (degrees.ring() == 1) return RowFault::kNone;
      if (!engine.ring_with_mask) return RowFault::kRingMask;
      return last ? RowFault::kNone : RowFault::kRingTail;
    case RowPolicy::kUneven:
      return s.rows % q != 0 && equal_shapes_only(problem.topology) ? RowFault::kUneven
                                                                    : RowFault::kNone;
  }
  return RowFault::kNone;
}

}  // namespace

RowVerdict split_rows(const Problem& problem, const Degrees& degrees,
                      const HeadMode& mode) {
  RowVerdict v;
  const int q = degrees.sequence();
  const RowPolicy policy = rows_of_mode(mode, degrees);
  for (const CutStream& s : cut_streams(problem.rows)) {
    if (q > 1 && kept_whole(problem.engine, s, q)) {
      v.padded += s.rows;
      v.busiest += s.rows;
      v.replicated.push_back(s.name);
      continue;
    }
    const std::int64_t unit =
        static_cast<std::int64_t>(q) * (q > 1 ? problem.engine.row_multiple : 1);
    const std::int64_t padding = policy == RowPolicy::kPad ? padding_of(s.rows, unit) : 0;
    v.padded += s.rows + padding;
    v.busiest += ceil_div(s.rows + padding, q);
  }
  return v;
}

bool rows_accepted(const Problem& problem, const Degrees& degrees, const HeadMode& mode) {
  if (degrees.sequence() == 1) return true;
  const RowPolicy policy = rows_of_mode(mode, degrees);
  const std::vector<CutStream> streams = cut_streams(problem.rows);
  return std::all_of(streams.begin(), streams.end(), [&](const CutStream& s) {
    return judge_rows(problem, degrees, policy, s, &s == &streams.back()) ==
           RowFault::kNone;
  });
}

std::vector<Finding> refuse_rows(const Problem& problem, const Degrees& degrees,
                                 RingMethod, const HeadMode& mode) {
  std::vector<Finding> findings;
  const int q = degrees.sequence();
  if (q == 1) return findings;
  const Engine& engine = problem.engine;
  const RowPolicy policy = rows_of_mode(mode, degrees);
  const std::vector<CutStream> streams = cut_streams(problem.rows);
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const CutStream& s = streams[i];
    const RowFault fault =
        judge_rows(problem, degrees, policy, s, i + 1 == streams.size());
    if (fault == RowFault::kNone) continue;
    const auto refuse = [&](const char* code, const std::string& message,
                            const std::string& suggestion) {
      findings.push_back(error(code, message, suggestion,
                               {{"stream", s.name},
                                {"rows", std::to_string(s.rows)},
                                {"degree", std::to_string(q)}}));
    };
    const auto even = [&] { return even_suggestion(problem, degrees); };
    const auto even_or_no_ring = [&] {
      return concat("ring 1 (ulysses ", q, "), or ", even());
    };
    const std::int64_t pad = padding_for(problem, s, q);
    switch (fault) {
      case RowFault::kShort:
        refuse(
            "rows-short",
            concat(s.name, " has ", s.rows, s.rows == 1 ? " row" : " rows",
                   ", fewer than the ", q, " sequence ranks, so a rank would hold none"),
            concat("a sequence degree of at most ", s.rows, ", or keep ", s.name,
                   " whole on every rank"));
        break;
      case RowFault::kStrict:
        refuse(s.joint ? "rows-stream" : "rows-divide",
               concat(rows_text(s, degrees), ", and ",
                      mode.flag.empty() ? std::string("the engine") : mode.flag,
                      " neither pads nor cuts unevenly"),
               even());
        break;
      case RowFault::kUnmasked:
        refuse("rows-mask",
               concat(rows_text(s, degrees), ": ", pad, " padding rows are needed, and ",
                      problem.model.title, " builds no mask, so they would be attended"),
               even());
        break;
      case RowFault::kRingMask:
        refuse("rows-mask",
               concat(rows_text(s, degrees), ": ", pad,
                      " padding rows need a key mask, which ", engine.name,
                      " does not take together with ring ", degrees.ring()),
               even_or_no_ring());
        break;
      case RowFault::kRingTail:
        refuse(
            "rows-tail",
            concat(rows_text(s, degrees), ": its ", pad,
                   " padding rows would stand before the rows of ", streams[i + 1].name,
                   ", and a ring takes padding at the global tail only"),
            even_or_no_ring());
        break;
      case RowFault::kUneven:
        refuse("fabric-uneven",
               concat(rows_text(s, degrees), ": ranks would send ", s.rows / q, " and ",
                      s.rows / q + 1, " rows, and the collectives of ",
                      problem.topology.name, " take equal shapes only"),
               even());
        break;
      case RowFault::kNone:
        break;
    }
  }
  return findings;
}

std::vector<Finding> check_index_width(const Problem& problem, const Degrees& degrees,
                                       RingMethod method, const Split& split) {
  const ModelSpec& model = problem.model;
  const Engine& engine = problem.engine;
  const auto kernel = std::find_if(
      engine.attention_kernels.begin(), engine.attention_kernels.end(),
      [&](const AttentionKernel& k) { return k.name == engine.stack.attention_kernel; });
  const int attention_bits =
      kernel == engine.attention_kernels.end() ? engine.index_bits : kernel->index_bits;
  const int tp = degrees.tp();
  const std::int64_t rows = split.busiest_rows * std::max(1, problem.workload.batch);

  struct Offset {
    std::string what;
    std::int64_t rows, stride;
    int bits;
  };
  std::vector<Offset> offsets;
  const std::int64_t qkv = (model.attention_width() + 2 * model.kv_width()) / tp;
  for (const BlockSpec& block : model.blocks) {
    const std::int64_t mlp = block.mlp_width / tp * (block.mlp_gated ? 2 : 1);
    // A parallel block computes attention inputs and MLP in one product.
    offsets.push_back({concat("MLP rows of ", block.name), rows,
                       block.parallel_mlp ? mlp + qkv : mlp, engine.index_bits});
  }
  offsets.push_back({"fused q, k, v rows", rows, qkv, attention_bits});
  if (degrees.ring() > 1 && method == RingMethod::kAllGather)
    offsets.push_back({"gathered K and V rows", rows * degrees.ring(),
                       2 * model.kv_width() / tp, attention_bits});

  constexpr std::int64_t kLimit = std::int64_t{1} << 31;
  const Offset* worst = nullptr;
  for (const Offset& o : offsets) {
    if (o.bits == 64 || o.rows * o.stride <= kLimit) continue;
    if (worst == nullptr || (o.bits == 32 && worst->bits != 32) ||
        (o.bits == worst->bits && o.rows * o.stride > worst->rows * worst->stride))
      worst = &o;
  }
  if (worst == nullptr) return {};
  const std::int64_t most = kLimit / worst->stride;
  const std::string message =
      concat(worst->what, ": ", worst->rows, " rows of stride ", worst->stride,
             " reach offset ", worst->rows * worst->stride, ", past 2^31",
             worst->bits == 32 ? "" : "; kernels with 32-bit offsets give wrong numbers");
  const std::string suggestion =
      concat("at most ", most, " rows a rank: a sequence degree of at least ",
             ceil_div(split.padded_rows * std::max(1, problem.workload.batch), most),
             ", or a larger tp");
  const Details details = {{"rows", std::to_string(worst->rows)},
                           {"stride", std::to_string(worst->stride)},
                           {"limit_rows", std::to_string(most)}};
  return {worst->bits == 32 ? error("int-width", message, suggestion, details)
                            : warning("int-width", message, suggestion, details)};
}

}  // namespace hpplan::rules
