#include "runtime/phases.h"

#include "planner/spec/error.h"

namespace hpplan::runtime {
namespace {

thread_local PhaseTimes* listener = nullptr;

}  // namespace

std::string_view to_string(Phase phase) {
  return phase == Phase::kLinear ? "linear" : "attention";
}

PhaseTimes::PhaseTimes() {
  HP_CHECK(listener == nullptr, "a second listener in one thread");
  listener = this;
}

PhaseTimes::~PhaseTimes() { listener = nullptr; }

InPhase::InPhase(Phase phase) : phase_(phase) {
  if (listener == nullptr || listener->inside_) return;
  times_ = listener;
  times_->inside_ = true;
  start_ = std::chrono::steady_clock::now();
}

InPhase::~InPhase() {
  if (times_ == nullptr) return;
  times_->inside_ = false;
  times_->seconds_[static_cast<std::size_t>(phase_)] +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

}  // namespace hpplan::runtime
