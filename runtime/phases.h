// Where the thread of a rank spends a step. Layers say what they are doing; nobody
// listens but --measure, and then a phase costs two readings of the clock. Phases do not
// overlap: one inside another belongs to the outer one, and no phase contains a wait for
// another rank (the ledger has those).
//
// Times are of the calls on this thread: on an accelerator, where a call returns before
// its kernel has run, they say nothing.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hpplan::runtime {

enum class Phase : std::uint8_t { kLinear, kAttention };
inline constexpr std::array<Phase, 2> kPhases = {Phase::kLinear, Phase::kAttention};
std::string_view to_string(Phase phase);  // "linear"

// Collects the phases of the thread it is made in, as long as it lives. One a thread.
class PhaseTimes {
 public:
  PhaseTimes();
  ~PhaseTimes();
  PhaseTimes(const PhaseTimes&) = delete;
  PhaseTimes& operator=(const PhaseTimes&) = delete;

  double seconds(Phase phase) const { return seconds_[static_cast<std::size_t>(phase)]; }
  void reset() { seconds_ = {}; }

 private:
  friend class InPhase;
  std::array<double, kPhases.size()> seconds_{};
  bool inside_ = false;
};

// The scope of one call.
class InPhase {
 public:
  explicit InPhase(Phase phase);
  ~InPhase();
  InPhase(const InPhase&) = delete;
  InPhase& operator=(const InPhase&) = delete;

 private:
  PhaseTimes* times_ = nullptr;  // null: nobody listens, or an outer phase has it
  Phase phase_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace hpplan::runtime
