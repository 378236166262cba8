// Free text of published measurements -> a Problem and a layout. The words are data
// (profiles/measurements/patterns.yaml); nothing here knows a group by name. What cannot be told is a reason in
// words, never a guess.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <variant>

#include "planner/problem.h"
#include "planner/spec/catalog.h"
#include "planner/spec/measurements_yaml.h"

namespace hpplan {

// One measured row as the planner sees it.
struct MatchedRow {
  std::shared_ptr<const Problem> problem;
  Degrees degrees;
  RingMethod method = RingMethod::kP2p;
  double seconds = 0;      // a step where `per_step`, else of something proportional to it
  bool per_step = false;
  bool failed = false;     // did not fit
};
struct Unmatched {
  std::string reason;
};

class Matcher {
 public:
  explicit Matcher(const Catalog& catalog);
  ~Matcher();

  std::variant<MatchedRow, Unmatched> match(const MeasuredGroup& group, const MeasuredRow& row, const Ablation& ablation);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hpplan
