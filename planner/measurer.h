// Measurer: the planner's one virtual seam, to whatever runs plans for real.
// LaunchMeasurer starts hprun; tests put a fake in its place.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "planner/spec/plan.h"

namespace hpplan {

struct MeasureRequest {
  int warmup = 2;      // steps of the served shape that are not counted
  int iterations = 5;  // steps that are
  Seconds timeout{
      120};          // one plan that has not ended by then, start included, has failed
  Seconds deadline;  // from now: whatever runs then is ended and says nothing; 0: none
};

class Measurer {
 public:
  virtual ~Measurer() = default;

  // Called for each plan as soon as its measurement is finished, with its index.
  using Done = std::function<void(std::size_t, const Measurement&)>;

  // Runs plans of one world size, in order, in one start. A crash or a hang is a
  // Measurement with an error, and ends the start: plans after it are not measured, and
  // not reported. Nor is a plan that was running when the deadline or a stop came.
  virtual void measure(const std::vector<const Plan*>& plans,
                       const MeasureRequest& request, const Done& done) = 0;

  // What runs them, with its version: measurements of another are not comparable.
  virtual std::string version() = 0;
};

}  // namespace hpplan
