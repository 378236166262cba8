// The table of rules, the modes of an engine tried in order, and what all rule files
// share.
#include "planner/rules.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "planner/rules_parts.h"
#include "planner/spec/error.h"

namespace hpplan {
namespace rules {

Finding error(std::string code, std::string message, std::string suggestion,
              Details details) {
  return {Severity::kError, std::move(code), std::move(message), std::move(suggestion),
          std::move(details)};
}

Finding warning(std::string code, std::string message, std::string suggestion,
                Details details) {
  return {Severity::kWarning, std::move(code), std::move(message), std::move(suggestion),
          std::move(details)};
}

std::string list(const std::vector<int>& values) {
  std::string text;
  for (const int v : values) text += (text.empty() ? "" : ", ") + std::to_string(v);
  return text.empty() ? "none" : text;
}

std::string with_nearest(const std::vector<int>& values, int wanted) {
  if (values.empty()) return "none";
  const int near = *std::min_element(
      values.begin(), values.end(),
      [wanted](int a, int b) { return std::abs(a - wanted) < std::abs(b - wanted); });
  return concat(list(values), " (nearest ", near, ")");
}

std::string percent(double part) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * part);
  return text;
}

std::string groups_text(const std::vector<std::vector<int>>& groups) {
  constexpr std::size_t kGroups = 3, kMembers = 16;
  std::string text;
  for (std::size_t g = 0; g < std::min(groups.size(), kGroups); ++g) {
    text += text.empty() ? "[" : " [";
    for (std::size_t i = 0; i < std::min(groups[g].size(), kMembers); ++i)
      text += (i == 0 ? "" : ",") + std::to_string(groups[g][i]);
    text += groups[g].size() > kMembers ? ",...]" : "]";
  }
  if (groups.size() > kGroups) text += " ...";
  return text;
}

std::string name_of(const Engine& engine, const HeadMode& mode) {
  return mode.flag.empty() ? engine.name : mode.flag;
}

bool mode_is_for(const HeadMode& mode, const ModelSpec& model) {
  return mode.models.empty() || std::find(mode.models.begin(), mode.models.end(),
                                          model.name) != mode.models.end();
}

RowPolicy rows_of_mode(const HeadMode& mode, const Degrees& degrees) {
  return degrees.ring() > 1 ? mode.rows_with_ring.value_or(mode.rows) : mode.rows;
}

bool equal_shapes_only(const Topology& topology) {
  return topology.group_rule == GroupRule::kNeuronTorus ||
         topology.group_rule == GroupRule::kNeuronTrn1;
}

namespace {

HeadVerdict verdict_of(const Problem& problem, const Degrees& degrees,
                       const HeadMode& mode) {
  const int tp = degrees.tp();
  return judge_heads(problem.engine, problem.model.heads / tp,
                     std::max(1, local_kv_heads(problem.model, problem.engine, tp)),
                     degrees.ulysses(), mode);
}

// Uneven heads on a fabric whose collectives take equal shapes only.
bool uneven_on_fabric(const Problem& problem, const Degrees& degrees,
                      const HeadMode& mode) {
  return mode.policy == HeadPolicy::kUneven && equal_shapes_only(problem.topology) &&
         verdict_of(problem, degrees, mode).pad != 0;
}

// Does nothing speak against the mode? What refuse() tells, without its text.
bool takes(const Problem& problem, const Degrees& degrees, const HeadMode& mode) {
  if (mode_excluded(degrees, mode)) return false;
  const auto heads = head_verdict(problem, degrees, mode);
  return (!heads || heads->refusal == HeadRefusal::kNone) &&
         !uneven_on_fabric(problem, degrees, mode) &&
         rows_accepted(problem, degrees, mode);
}

// Everything that speaks against one mode.
struct ModeRefusal {
  const HeadMode* mode = nullptr;
  bool excluded = false;  // the degrees are outside what the mode is for
  std::vector<Finding> findings;
};

ModeRefusal refuse(const Problem& problem, const Degrees& degrees, RingMethod method,
                   const HeadMode& mode) {
  ModeRefusal r{&mode, false, {}};
  if (const auto finding = refuse_mode(problem, degrees, mode)) {
    r.excluded = true;
    r.findings.push_back(*finding);
    return r;
  }
  if (const auto finding = refuse_heads(problem, degrees, method, mode)) {
    r.findings.push_back(*finding);
  } else if (uneven_on_fabric(problem, degrees, mode)) {
    const HeadVerdict v = verdict_of(problem, degrees, mode);
    r.findings.push_back(error(
        "fabric-uneven",
        concat(v.heads, " heads over ulysses ", degrees.ulysses(), " are ", v.busiest,
               " on one rank and fewer on another, and the collectives of ",
               problem.topology.name, " take equal shapes only"),
        "an engine mode that pads heads"));
  }
  for (Finding& f : refuse_rows(problem, degrees, method, mode))
    r.findings.push_back(std::move(f));
  return r;
}

bool has_code(const std::vector<Finding>& findings, const std::string& code) {
  return std::any_of(findings.begin(), findings.end(),
                     [&](const Finding& f) { return f.code == code; });
}

// What no mode lifts is the reason; where each mode fails for another, the mode that is
// nearest to legal speaks. Either way the first finding tells what every mode said.
std::vector<Finding> explain(const std::vector<ModeRefusal>& refusals) {
  const ModeRefusal* nearest = nullptr;
  for (const ModeRefusal& r : refusals)
    if (!r.excluded &&
        (nearest == nullptr || r.findings.size() < nearest->findings.size()))
      nearest = &r;
  if (nearest == nullptr) nearest = &refusals.front();
  std::vector<Finding> findings;
  for (const Finding& f : nearest->findings)
    if (std::all_of(refusals.begin(), refusals.end(), [&](const ModeRefusal& r) {
          return r.excluded || has_code(r.findings, f.code);
        }))
      findings.push_back(f);
  if (findings.empty()) findings = nearest->findings;
  if (refusals.size() == 1) return findings;

  const std::string& code = findings.front().code;
  std::vector<std::string> said;
  std::string message;
  for (const ModeRefusal& r : refusals) {
    const auto same = std::find_if(r.findings.begin(), r.findings.end(),
                                   [&](const Finding& f) { return f.code == code; });
    const std::string& text =
        (same == r.findings.end() ? r.findings.front() : *same).message;
    if (std::find(said.begin(), said.end(), text) != said.end()) continue;
    said.push_back(text);
    if (!message.empty()) message += "; ";
    if (!r.excluded && !r.mode->flag.empty())
      message += concat("with ", r.mode->flag, ": ");
    message += text;
  }
  findings.front().message = message;
  return findings;
}

void warn_of_padding(std::vector<Finding>& findings, const Problem& problem,
                     const Degrees& degrees, const HeadMode& mode, const Split& split) {
  const HeadVerdict v = verdict_of(problem, degrees, mode);
  const std::string by = mode.flag.empty() ? "" : concat(" (", mode.flag, ")");
  if (degrees.ulysses() > 1 && v.pad > 0 && mode.policy != HeadPolicy::kStrict) {
    const bool uneven = mode.policy == HeadPolicy::kUneven;
    const std::string waste = percent(static_cast<double>(v.pad) / v.heads);
    std::string message =
        uneven ? concat(v.heads, " heads a tp rank over ulysses ", degrees.ulysses(),
                        ": the busiest rank computes ", v.busiest, ", as if there were ",
                        v.padded, " (", waste, " more)", by)
               : concat(v.heads, " heads a tp rank padded to ", v.padded, " for ulysses ",
                        degrees.ulysses(), ": ", waste, " more attention work", by);
    if (!uneven && v.pad >= v.busiest)
      message += concat("; ", v.pad / v.busiest, " of ", degrees.ulysses(),
                        " ranks hold padding alone");
    findings.push_back(warning(uneven ? "heads-uneven" : "heads-padded", message, "",
                               {{"heads", std::to_string(v.heads)},
                                {"padded_heads", std::to_string(v.padded)},
                                {"busiest_heads", std::to_string(v.busiest)}}));
  }
  if (degrees.sequence() > 1 && split.padded_rows > split.rows)
    findings.push_back(
        warning("rows-padded",
                concat(split.rows, " rows padded to ", split.padded_rows, " for ",
                       degrees.sequence(),
                       " sequence ranks; the padding is masked and cut off", by),
                "",
                {{"rows", std::to_string(split.rows)},
                 {"padded_rows", std::to_string(split.padded_rows)}}));
  for (const std::string& name : split_rows(problem, degrees, mode).replicated)
    findings.push_back(
        warning("rows-replicated",
                concat("the rows of ", name, " do not divide by ", degrees.sequence(),
                       " and are kept whole on every sequence rank"),
                ""));
}

}  // namespace
}  // namespace rules

const std::vector<RuleInfo>& rule_table() {
  static const std::vector<RuleInfo> kTable = {
      {"heads-tp", "tp divides the heads"},
      {"kv-heads",
       "KV heads divide the heads; they divide by tp, or tp is a multiple and they are "
       "copied"},
      {"mlp-tp", "tp divides every MLP width"},
      {"adaln-tp", "tp divides the modulation width where the engine cuts it"},
      {"packed-tp", "tp divides every part of a fused weight"},
      {"quant-block", "the local width of a block-quantized weight is whole blocks"},
      {"ulysses-heads",
       "ulysses divides the heads of a tp rank, or the engine pads or spreads them"},
      {"ulysses-kv-heads",
       "ulysses divides the KV heads of a tp rank, or they are copied"},
      {"mode-ring", "the engine mode works beside a ring"},
      {"mode-ulysses", "the engine mode works beside ulysses"},
      {"rows-divide",
       "the sequence degree divides the rows, where the engine neither pads nor cuts "
       "unevenly"},
      {"rows-stream", "the same for each stream of a joint attention"},
      {"rows-short", "every sequence rank has a row of every stream that is cut"},
      {"rows-mask", "rows are padded only where the padding is masked"},
      {"rows-tail", "with a ring, padding stands at the global tail only"},
      {"row-index", "the engine cuts per-row indices with the rows"},
      {"int-width", "rows times width of a rank stay within the offsets of its kernels"},
      {"engine-vendor", "the engine runs on these devices"},
      {"engine-tp", "the engine has tensor parallelism"},
      {"engine-tp-sequence", "the engine takes tp together with a sequence axis"},
      {"engine-groups", "the engine's own groups of two axes share one rank only"},
      {"engine-cfg", "the engine splits guidance branches so many ways"},
      {"cfg-branches", "there are as many guidance branches as cfg ranks"},
      {"cfg-waste", "no smaller cfg takes as few forward passes (warning)"},
      {"ring-method", "the engine has that ring method"},
      {"ring-ulysses", "the engine takes the ring method together with ulysses"},
      {"attention-joint", "the engine's ring takes joint text-image attention"},
      {"attention-gqa", "the engine's ring takes fewer KV heads than heads"},
      {"attention-backend",
       "the attention kernel takes part in sequence parallelism, and in a ring gives the "
       "LSE"},
      {"adapter-fusion", "adapters are not added into weights that are cut or quantized"},
      {"world-size",
       "the degrees multiply to a number of devices the machine has and starts"},
      {"rank-order", "the engine builds the groups of this mesh"},
      {"mesh-partition", "the groups of every axis partition the ranks"},
      {"mesh-overlap", "two groups of different axes share at most one rank"},
      {"slice-start", "a Neuron job starts at a multiple of its tp"},
      {"fabric-routable", "the fabric routes every group of every axis"},
      {"fabric-aligned",
       "eager all-to-all groups are aligned runs of a size the fabric takes"},
      {"fabric-uneven", "collectives of equal shapes only get equal shares"},
      {"memory-load", "the fullest rank fits while loading"},
      {"memory-text", "the fullest rank fits while encoding text"},
      {"memory-denoise", "the fullest rank fits while denoising"},
      {"memory-decode", "the fullest rank fits while decoding"},
      {"memory-host", "the host fits while loading"},
      {"heads-padded", "how much attention work padded heads add (warning)"},
      {"heads-uneven", "how much the busiest rank of uneven heads adds (warning)"},
      {"rows-padded", "how many rows are padding (warning)"},
      {"rows-replicated", "which streams are kept whole (warning)"},
  };
  return kTable;
}

std::optional<Split> split_of(const Problem& problem, const Degrees& degrees,
                              RingMethod) {
  using namespace rules;
  const ModelSpec& model = problem.model;
  const int tp = degrees.tp();
  if (refuse_size(problem, degrees).has_value()) return std::nullopt;
  if (model.heads % tp != 0 || local_kv_heads(model, problem.engine, tp) == 0)
    return std::nullopt;
  for (const HeadMode& mode : problem.engine.head_modes) {
    if (!mode_is_for(mode, model) || !takes(problem, degrees, mode)) continue;
    const HeadVerdict v = verdict_of(problem, degrees, mode);
    const RowVerdict rows = split_rows(problem, degrees, mode);
    Split split;
    split.mode = mode;
    split.local_heads = v.heads;
    split.padded_heads = v.padded;
    split.busiest_heads = v.busiest;
    split.rows = problem.rows.total();
    split.padded_rows = rows.padded;
    split.busiest_rows = rows.busiest;
    return split;
  }
  return std::nullopt;
}

std::vector<Finding> check_degrees(const Problem& problem, const Degrees& degrees,
                                   RingMethod method) {
  using namespace rules;
  for (const int d : degrees.of_axis) HP_CHECK(d >= 1, degrees.str());
  if (const auto finding = refuse_size(problem, degrees)) return {*finding};
  std::vector<Finding> findings = check_widths(problem, degrees.tp());
  const bool heads_known = legal(findings);
  for (Finding& f : check_engine(problem, degrees, method))
    findings.push_back(std::move(f));
  if (!heads_known) return findings;

  if (const std::optional<Split> split = split_of(problem, degrees, method)) {
    for (Finding& f : check_index_width(problem, degrees, method, *split))
      findings.push_back(std::move(f));
    warn_of_padding(findings, problem, degrees, split->mode, *split);
    return findings;
  }
  std::vector<ModeRefusal> refusals;
  for (const HeadMode& mode : problem.engine.head_modes) {
    if (!mode_is_for(mode, problem.model)) continue;
    refusals.push_back(refuse(problem, degrees, method, mode));
    HP_CHECK(!refusals.back().findings.empty(), degrees.str(), ": ",
             name_of(problem.engine, mode), " takes what split_of refuses");
  }
  HP_CHECK(!refusals.empty(), problem.engine.name, " has no head mode for ",
           problem.model.name);
  for (Finding& f : explain(refusals)) findings.push_back(std::move(f));
  return findings;
}

bool legal(const std::vector<Finding>& findings) {
  return std::none_of(findings.begin(), findings.end(),
                      [](const Finding& f) { return f.severity == Severity::kError; });
}

}  // namespace hpplan
