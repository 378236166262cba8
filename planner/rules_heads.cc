// Heads, KV heads and sharded widths: what tp and ulysses must divide.
#include <algorithm>
#include <cstdlib>

#include "planner/rules_parts.h"
#include "planner/spec/error.h"

namespace hpplan::rules {
namespace {

int ceil_to(int value, int multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// A weight of which tp cuts `width`: the rows of a column-parallel, the columns of a
// row-parallel one.
struct CutWidth {
  std::string_view kind;   // "MLP of "
  std::string_view block;  // of the model, which outlives it
  std::int64_t width = 0;
  std::string what() const { return concat(kind, block); }
};

// A part of a fused weight by its name; 0: a name that says nothing about its width.
std::int64_t part_width(const ModelSpec& model, const BlockSpec& block,
                        const std::string& part) {
  if (part == "q") return model.attention_width();
  if (part == "k" || part == "v") return model.kv_width();
  for (const char* word : {"gate", "up", "mlp", "ff"})
    if (part.find(word) != std::string::npos) return block.mlp_width;
  return 0;
}

std::vector<CutWidth> mlp_widths(const ModelSpec& model) {
  std::vector<CutWidth> widths;
  for (const BlockSpec& block : model.blocks) {
    if (block.mlp_width > 0) widths.push_back({"MLP of ", block.name, block.mlp_width});
    if (block.text_mlp_width > 0)
      widths.push_back({"text MLP of ", block.name, block.text_mlp_width});
  }
  return widths;
}

std::vector<CutWidth> adaln_widths(const ModelSpec& model, const Engine& engine) {
  std::vector<CutWidth> widths;
  if (!engine.adaln_divided) return widths;
  for (const BlockSpec& block : model.blocks)
    if (block.adaln_out > 0)
      widths.push_back({"modulation of ", block.name, block.adaln_out});
  return widths;
}

bool heads_fit_tp(const ModelSpec& model, const Engine& engine, int tp) {
  return model.heads % tp == 0 && model.heads % model.kv_heads == 0 &&
         local_kv_heads(model, engine, tp) > 0;
}

// Widths a block-quantized weight is cut into, with the local width.
std::vector<CutWidth> quantized_widths(const ModelSpec& model, const Engine& engine,
                                       int tp) {
  std::vector<CutWidth> widths = mlp_widths(model);
  for (CutWidth& cut : widths) cut.width /= tp;
  widths.push_back({"attention", "", model.attention_width() / tp});
  if (model.kv_heads != model.heads)
    widths.push_back(
        {"k and v", "",
         static_cast<std::int64_t>(local_kv_heads(model, engine, tp)) * model.head_dim});
  return widths;
}

bool tp_fits(const Problem& problem, int tp) {
  const ModelSpec& model = problem.model;
  if (tp == 1) return true;
  if (!heads_fit_tp(model, problem.engine, tp)) return false;
  const auto divides = [tp](const CutWidth& cut) { return cut.width % tp == 0; };
  const auto mlp = mlp_widths(model);
  const auto adaln = adaln_widths(model, problem.engine);
  if (!std::all_of(mlp.begin(), mlp.end(), divides) ||
      !std::all_of(adaln.begin(), adaln.end(), divides))
    return false;
  const int block = problem.workload.quant_block;
  if (block <= 0) return true;
  const auto local = quantized_widths(model, problem.engine, tp);
  return std::all_of(local.begin(), local.end(),
                     [block](const CutWidth& c) { return c.width % block == 0; });
}

std::string tp_suggestion(const Problem& problem, int tp) {
  const std::vector<int> legal = legal_tp(problem, problem.topology.devices());
  return concat("legal tp: ", with_nearest(legal, tp));
}

// Equal widths of several blocks are one finding.
void check_division(std::vector<Finding>& findings, const Problem& problem,
                    const std::string& code, const std::vector<CutWidth>& widths,
                    int tp) {
  std::vector<std::int64_t> said;
  for (const CutWidth& cut : widths) {
    if (cut.width % tp == 0 ||
        std::find(said.begin(), said.end(), cut.width) != said.end())
      continue;
    said.push_back(cut.width);
    findings.push_back(
        error(code,
              concat(cut.what(), " is ", cut.width, " wide, which does not divide by tp ",
                     tp, " (", cut.width, " % ", tp, " = ", cut.width % tp, ")"),
              tp_suggestion(problem, tp),
              {{"width", std::to_string(cut.width)}, {"tp", std::to_string(tp)}}));
  }
}

void check_packed(std::vector<Finding>& findings, const Problem& problem, int tp) {
  const ModelSpec& model = problem.model;
  for (const BlockSpec& block : model.blocks) {
    for (const BlockSpec::Packed& packed : block.packed) {
      std::string bad;
      for (const std::string& part : packed.parts) {
        const bool is_kv = part == "k" || part == "v";
        const bool fits = part == "q" ? model.heads % tp == 0
                          : is_kv     ? local_kv_heads(model, problem.engine, tp) > 0
                                      : part_width(model, block, part) % tp == 0;
        if (fits) continue;
        bad += concat(bad.empty() ? "" : ", ", part, " (", part_width(model, block, part),
                      " wide");
        if (part == "q" || is_kv)
          bad += concat(" = ", is_kv ? model.kv_heads : model.heads, " heads");
        bad += ")";
      }
      if (bad.empty()) continue;
      findings.push_back(error(
          "packed-tp",
          concat("fused weight ", packed.name, " of ", block.name,
                 " is cut part by part, and tp ", tp, " does not divide: ", bad),
          tp_suggestion(problem, tp), {{"weight", packed.name}, {"block", block.name}}));
    }
  }
}

void check_quantization(std::vector<Finding>& findings, const Problem& problem, int tp) {
  const int block = problem.workload.quant_block;
  if (block <= 0) return;
  std::vector<std::int64_t> said;
  for (const CutWidth& cut : quantized_widths(problem.model, problem.engine, tp)) {
    if (cut.width % block == 0 ||
        std::find(said.begin(), said.end(), cut.width) != said.end())
      continue;
    said.push_back(cut.width);
    int smaller = block;
    while (smaller > 16 && cut.width % smaller != 0) smaller /= 2;
    std::string suggestion = tp_suggestion(problem, tp);
    if (smaller < block && cut.width % smaller == 0)
      suggestion += concat(", or scales split into blocks of ", smaller);
    findings.push_back(error(
        "quant-block",
        concat(cut.what(), " is ", cut.width, " wide on a rank with tp ", tp,
               ", which is ", static_cast<double>(cut.width) / block,
               " quantization blocks of ", block),
        suggestion,
        {{"local_width", std::to_string(cut.width)}, {"block", std::to_string(block)}}));
  }
}

}  // namespace

int local_kv_heads(const ModelSpec& model, const Engine& engine, int tp) {
  if (model.kv_heads % tp == 0) return model.kv_heads / tp;
  return engine.kv_replication && tp % model.kv_heads == 0 ? 1 : 0;
}

HeadVerdict judge_heads(const Engine& engine, int heads, int kv_heads, int ulysses,
                        const HeadMode& mode) {
  HeadVerdict v;
  v.heads = heads;
  v.kv_heads = kv_heads;
  v.padded = ceil_to(heads, ulysses);
  v.pad = v.padded - heads;
  v.busiest = v.padded / ulysses;
  const bool kv_divides = kv_heads % ulysses == 0;
  const bool kv_replicated = engine.kv_replication_ulysses && ulysses % kv_heads == 0;
  const bool grouped = kv_heads != heads;
  switch (mode.policy) {
    case HeadPolicy::kStrict:
      if (v.pad != 0) v.refusal = HeadRefusal::kStrict;
      break;
    case HeadPolicy::kPadRealHead:
      if (v.pad != 0 && v.pad >= v.busiest) v.refusal = HeadRefusal::kPadLimit;
      break;
    case HeadPolicy::kPadAny:
      if (grouped && mode.kv_first) {
        // KV first, then queries by the ratio; padding both on their own would tear the
        // groups apart.
        v.padded = ceil_to(kv_heads, ulysses) * (heads / kv_heads);
        v.pad = v.padded - heads;
        v.busiest = v.padded / ulysses;
        return v;
      }
      break;
    case HeadPolicy::kUneven:
      if (heads < ulysses) v.refusal = HeadRefusal::kTooFew;
      // Whole KV groups go to a rank: 6 query heads on 3 KV heads over 2 ranks are 4
      // and 2.
      if (grouped && kv_heads >= ulysses) {
        v.busiest = (kv_heads + ulysses - 1) / ulysses * (heads / kv_heads);
        v.padded = v.busiest * ulysses;
        v.pad = v.padded - heads;
        return v;
      }
      break;
  }
  if (v.refusal == HeadRefusal::kNone && grouped && !kv_divides && !kv_replicated)
    v.refusal = HeadRefusal::kKv;
  return v;
}

std::optional<HeadVerdict> head_verdict(const Problem& problem, const Degrees& degrees,
                                        const HeadMode& mode) {
  const ModelSpec& model = problem.model;
  const Engine& engine = problem.engine;
  const int tp = degrees.tp();
  if (degrees.ulysses() == 1 || !heads_fit_tp(model, engine, tp)) return std::nullopt;
  // xDiT looks at all heads and forgets tp; check_engine tells of what that hides.
  const bool all = engine.heads_checked_globally;
  return judge_heads(engine, all ? model.heads : model.heads / tp,
                     all ? model.kv_heads : local_kv_heads(model, engine, tp),
                     degrees.ulysses(), mode);
}

std::optional<Finding> refuse_heads(const Problem& problem, const Degrees& degrees,
                                    RingMethod method, const HeadMode& mode) {
  const ModelSpec& model = problem.model;
  const Engine& engine = problem.engine;
  const int tp = degrees.tp();
  const int u = degrees.ulysses();
  const auto verdict = head_verdict(problem, degrees, mode);
  if (!verdict || verdict->refusal == HeadRefusal::kNone) return std::nullopt;
  const HeadVerdict& v = *verdict;

  std::string message = concat(model.heads, " heads");
  if (tp > 1 && !engine.heads_checked_globally)
    message += concat(" / tp ", tp, " = ", v.heads, " heads a rank");
  switch (v.refusal) {
    case HeadRefusal::kStrict:
      message += concat(", and ", v.heads, " % ulysses ", u, " = ", v.heads % u);
      break;
    case HeadRefusal::kPadLimit:
      message +=
          concat(", padded ", v.heads, " -> ", v.padded, " for ulysses ", u, " (pad ",
                 v.pad, ", ", v.busiest,
                 " a rank): every rank must keep a real head, pad < heads a rank, and ",
                 v.pad, " < ", v.busiest, " does not hold");
      break;
    case HeadRefusal::kTooFew:
      message += concat(" are fewer than ulysses ", u, ", so a rank would hold none");
      break;
    case HeadRefusal::kKv:
      message =
          concat(v.kv_heads, " KV heads a rank (", model.heads, " heads, ",
                 model.kv_heads, " KV heads, tp ", tp, ") do not divide by ulysses ", u);
      message += engine.kv_replication_ulysses
                     ? concat(", and ulysses ", u, " is no multiple of ", v.kv_heads,
                              ", so copies do not help")
                     : ", and the engine does not copy KV heads over ulysses ranks";
      break;
    case HeadRefusal::kNone:
      break;
  }
  // Degrees that would do, under any mode that this ring allows.
  std::vector<int> legal;
  for (int other = 1; other <= std::max(u, problem.topology.devices()) && other <= 1024;
       ++other) {
    for (const HeadMode& m : engine.head_modes) {
      if (!mode_is_for(m, model) || (degrees.ring() > 1 && !m.with_ring) ||
          (other > 1 && !m.with_ulysses))
        continue;
      if (other > 1 && judge_heads(engine, v.heads, v.kv_heads, other, m).refusal !=
                           HeadRefusal::kNone)
        continue;
      if (m.policy == HeadPolicy::kPadAny && other > 2 * v.heads)
        continue;  // nothing but padding
      legal.push_back(other);
      break;
    }
  }
  std::string suggestion =
      concat("with tp ", tp, ", ulysses can be ", with_nearest(legal, u));
  if (engine.ring_allgather && degrees.ring() == 1 &&
      (method == RingMethod::kP2p || u > 1))
    suggestion +=
        concat("; a K/V gather (ring ", u, ", method allgather) has no head rule");
  return error(v.refusal == HeadRefusal::kKv ? "ulysses-kv-heads" : "ulysses-heads",
               std::move(message), std::move(suggestion),
               {{"local_heads", std::to_string(v.heads)},
                {"ulysses", std::to_string(u)},
                {"pad", std::to_string(v.pad)},
                {"padded_heads", std::to_string(v.padded)}});
}

std::vector<Finding> check_widths(const Problem& problem, int tp) {
  std::vector<Finding> findings;
  const ModelSpec& model = problem.model;
  if (model.heads % model.kv_heads != 0)
    findings.push_back(
        error("kv-heads",
              concat(model.heads, " heads do not divide by ", model.kv_heads,
                     " KV heads, so no KV head serves a whole number of query heads"),
              "correct heads or kv_heads of the model profile"));
  if (tp == 1) return findings;
  if (model.heads % tp != 0)
    findings.push_back(
        error("heads-tp",
              concat(model.heads, " heads do not divide by tp ", tp, " (", model.heads,
                     " % ", tp, " = ", model.heads % tp, ")"),
              tp_suggestion(problem, tp),
              {{"heads", std::to_string(model.heads)}, {"tp", std::to_string(tp)}}));
  if (local_kv_heads(model, problem.engine, tp) == 0 && model.kv_heads != model.heads)
    findings.push_back(error(
        "kv-heads",
        tp % model.kv_heads == 0
            ? concat(model.kv_heads, " KV heads are fewer than tp ", tp, " and ",
                     problem.engine.name, " does not copy them")
            : concat(model.kv_heads, " KV heads neither divide by tp ", tp,
                     " nor tp by them"),
        tp_suggestion(problem, tp),
        {{"kv_heads", std::to_string(model.kv_heads)}, {"tp", std::to_string(tp)}}));
  check_division(findings, problem, "mlp-tp", mlp_widths(model), tp);
  check_division(findings, problem, "adaln-tp", adaln_widths(model, problem.engine), tp);
  check_packed(findings, problem, tp);
  if (findings.empty()) check_quantization(findings, problem, tp);
  return findings;
}

std::vector<int> legal_tp(const Problem& problem, int limit) {
  std::vector<int> legal;
  // No tp above the head count divides it.
  for (int tp = 1; tp <= std::min(limit, problem.model.heads); ++tp)
    if (tp_fits(problem, tp)) legal.push_back(tp);
  return legal;
}

}  // namespace hpplan::rules
