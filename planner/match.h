// Free text of published measurements -> a Problem and a layout. The words are data
// (profiles/measurements/patterns.yaml), and names of the catalog are found as they are;
// nothing here knows a group by name. What cannot be told is a reason in words, never a
// guess.
//
// Keys of `hardware` say it directly where the file has them: topology (a machine's
// name), peer_access (works, all-to-all-collapses, none). A model that is no profile is
// taken from the dimensions in `workload`: heads, head_dim, hidden, blocks (kv_heads,
// mlp_width, text_tokens where they differ from the usual), with seq_tokens rows.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "planner/operator_cost.h"
#include "planner/problem.h"
#include "planner/spec/catalog.h"
#include "planner/spec/measurements_yaml.h"

namespace hpplan {

// One measured row as the planner sees it.
struct MatchedRow {
  std::shared_ptr<const Problem> problem;
  std::optional<OperatorShape> op;  // an attention call alone, not a denoise step
  bool balanced = true;             // of an operator: a causal mask is dealt evenly
  Degrees degrees;
  RingMethod method = RingMethod::kP2p;
  int weight_shards =
      1;  // weights are spread over so many ranks and gathered block by block
  double seconds = 0;  // a step where `per_step`, else of something proportional to it
  bool per_step = false;
  bool failed = false;          // did not fit
  std::optional<Bytes> memory;  // measured peak of the fullest device
};
struct Unmatched {
  std::string reason;
};

class Matcher {
 public:
  explicit Matcher(const Catalog& catalog);
  ~Matcher();

  std::variant<MatchedRow, Unmatched> match(const MeasuredGroup& group,
                                            const MeasuredRow& row,
                                            const Ablation& ablation);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hpplan
