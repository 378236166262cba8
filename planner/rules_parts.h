// What the rules*.cc files share; nobody else includes it. A rule reads a Problem and
// degrees (or a mesh) and returns findings; the judge_* functions give the same verdict
// as numbers, without text, for scans over many degrees.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/problem.h"
#include "planner/rules.h"

namespace hpplan::rules {

using Details = std::map<std::string, std::string>;

Finding error(std::string code, std::string message, std::string suggestion = "",
              Details details = {});
Finding warning(std::string code, std::string message, std::string suggestion = "",
                Details details = {});

std::string list(const std::vector<int>& values);  // "1, 2, 4"; "none"
std::string with_nearest(const std::vector<int>& values,
                         int wanted);  // "1, 2, 4, 7 (nearest 7)"
std::string percent(double part);      // 0.143 -> "14.3 %"
std::string groups_text(
    const std::vector<std::vector<int>>& groups);  // the first few, "[0,1] [2,3] ..."
std::string name_of(const Engine& engine,
                    const HeadMode& mode);  // "diffusers ulysses_anything=True"
bool mode_is_for(const HeadMode& mode, const ModelSpec& model);
RowPolicy rows_of_mode(const HeadMode& mode, const Degrees& degrees);
// The fabric's collectives take equal shapes only (Neuron).
bool equal_shapes_only(const Topology& topology);

// --- heads and widths (rules_heads.cc)

// KV heads on a rank under tp: divided, or one when replicated; 0 when neither works.
int local_kv_heads(const ModelSpec& model, const Engine& engine, int tp);

enum class HeadRefusal : std::uint8_t { kNone, kStrict, kPadLimit, kTooFew, kKv };
struct HeadVerdict {
  HeadRefusal refusal = HeadRefusal::kNone;
  int heads = 0;  // h, on a tp rank
  int kv_heads = 0;
  int pad = 0;      // zero heads added, or heads that are missing to even shares
  int padded = 0;   // h + pad
  int busiest = 0;  // heads the busiest rank computes
};
// heads and kv_heads are those of a tp rank.
HeadVerdict judge_heads(const Engine& engine, int heads, int kv_heads, int ulysses,
                        const HeadMode& mode);
// The heads of these degrees as the engine counts them; nullopt where no rule of heads
// applies: ulysses 1, or a tp that does not cut the heads.
std::optional<HeadVerdict> head_verdict(const Problem& problem, const Degrees& degrees,
                                        const HeadMode& mode);
std::optional<Finding> refuse_heads(const Problem& problem, const Degrees& degrees,
                                    RingMethod method, const HeadMode& mode);
// heads-tp, kv-heads, mlp-tp, adaln-tp, packed-tp, quant-block.
std::vector<Finding> check_widths(const Problem& problem, int tp);
// Every tp up to limit that check_widths accepts.
std::vector<int> legal_tp(const Problem& problem, int limit);

// --- rows (rules_rows.cc)

struct RowVerdict {
  std::int64_t padded = 0;              // all cut and replicated rows, padding included
  std::int64_t busiest = 0;             // rows of the fullest rank
  std::vector<std::string> replicated;  // joint streams kept whole on every rank
};
RowVerdict split_rows(const Problem& problem, const Degrees& degrees,
                      const HeadMode& mode);
// Does refuse_rows find nothing?
bool rows_accepted(const Problem& problem, const Degrees& degrees, const HeadMode& mode);
std::vector<Finding> refuse_rows(const Problem& problem, const Degrees& degrees,
                                 RingMethod method, const HeadMode& mode);
std::vector<Finding> check_index_width(const Problem& problem, const Degrees& degrees,
                                       RingMethod method, const Split& split);

// --- engine (rules_engine.cc)

// Degrees beyond any machine, refused before anything is multiplied.
std::optional<Finding> refuse_size(const Problem& problem, const Degrees& degrees);
// Exclusions that no mode can lift: axes, ring methods, vendor, branches, world size,
// attention kernels.
std::vector<Finding> check_engine(const Problem& problem, const Degrees& degrees,
                                  RingMethod method);
// Exclusions of one head mode: with ring, with ulysses.
bool mode_excluded(const Degrees& degrees, const HeadMode& mode);
std::optional<Finding> refuse_mode(const Problem& problem, const Degrees& degrees,
                                   const HeadMode& mode);
// Does the engine build the groups of this mesh?
std::vector<Finding> check_expressible(const Problem& problem, const Mesh& mesh);

}  // namespace hpplan::rules
