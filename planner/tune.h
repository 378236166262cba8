// Tuning: the best few of a search and the engine's own default layout are run for real,
// ranked by what they measured, and the plan is made of the fastest.
//
// Runs are interleaved A B C C B A A B C ..., so that a machine that warms up or slows
// down does so for all; plans of one world size share a start. A layout whose interval of
// the median lies wholly above the best one's, after two runs of each, is out; when one
// is left, the answer is separated and tuning stops. A layout with a failed run is out
// too.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "planner/journal.h"
#include "planner/measurer.h"
#include "planner/problem.h"
#include "planner/stats.h"

namespace hpplan {

struct TuneOptions {
  Seconds budget{600};       // of this call
  int rounds = 8;            // most runs of one layout
  double confidence = 0.95;  // of the intervals
  MeasureRequest run;
};

enum class ContenderState : std::uint8_t { kWaiting, kMeasured, kSlower, kFailed };

// A layout under measurement.
struct Contender {
  Plan plan;                // with the layout as chosen, nothing else
  int predicted_place = 0;  // 1 = predicted fastest; 0: the baseline, not shortlisted
  bool baseline = false;    // the engine's default layout
  std::vector<Measurement> runs;  // the journal's first
  int from_journal = 0;
  ContenderState state = ContenderState::kWaiting;

  std::vector<double> steps() const;  // all timed steps
};

// The `top` best of searched.candidates, and the engine's default layout on as many
// devices as the best one has, unless it is among them.
std::vector<Contender> shortlist(const Problem& problem, const Plan& searched, int top);

// The layout people start with: Ulysses over all ranks, else tp, else the widest Ulysses
// that is legal with tp, then ring, in the engine's own rank order. nullopt when none is.
std::optional<Candidate> default_layout(const Problem& problem, int devices);

// Several runs of one plan as one measurement.
Measurement merged(const std::vector<Measurement>& runs);

// With the state their runs give them: measured, fastest first; then failed; then not
// run.
std::vector<Contender> ranked(std::vector<Contender> contenders);

struct TuneProgress {
  const Contender* contender = nullptr;  // that was measured
  int done = 0, planned = 0;             // runs of this call, at most
  Seconds elapsed, left;                 // expected
};

struct TuneResult {
  std::vector<Contender> ranked;  // measured, best first; then failed; then not reached
  std::string stopped;            // "separated", "rounds", "budget", "interrupted"
};

// journal may be null. Stops early when stopped() says so. A journal that cannot be
// written throws InputError.
TuneResult tune(std::vector<Contender> contenders, Measurer& measurer, Journal* journal,
                const TuneOptions& options,
                const std::function<void(const TuneProgress&)>& progress,
                const std::function<bool()>& stopped);

// The searched plan with what was measured: the fastest chosen, the others before the
// unmeasured runners-up. nullopt when nothing was measured.
std::optional<Plan> tuned_plan(const Plan& searched, const TuneResult& result);

}  // namespace hpplan
