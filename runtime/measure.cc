#include "runtime/measure.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>

#include "planner/spec/error.h"
#include "runtime/accelerators.h"
#include "runtime/phases.h"
#include "runtime/timings.h"

namespace hpplan::runtime {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The most this process ever held, of /proc/self/status.
double peak_bytes() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.rfind("VmHWM:", 0) != 0) continue;
    std::istringstream in(line.substr(6));
    double kib = 0;
    in >> kib;
    return kib * 1024;
  }
  return 0;
}

// What the rank's thread did in the step that the ledger has just seen: its parts are
// exclusive and sum to step_of_this_rank.
std::map<std::string, double> phases_of(const DeviceMesh& mesh, const PhaseTimes& times, double step) {
  std::map<std::string, double> phases = {{"step_of_this_rank", step}};
  // Calls on an accelerator return before it is done: neither computing nor waiting is seen from here.
  if (!mesh.device().is_cpu()) return phases;
  double rest = step;
  for (const Phase phase : kPhases) rest -= phases[concat("compute_", to_string(phase))] = times.seconds(phase);
  const std::map<std::string, double> waited = mesh.ledger().waited_s();
  for (const Axis axis : kAxes) {
    if (mesh.group(axis).size() == 1) continue;
    const auto found = waited.find(std::string(to_string(axis)));
    rest -= phases[concat("exposed_", to_string(axis))] = found == waited.end() ? 0 : found->second;
  }
  phases["compute_other"] = rest;
  return phases;
}

// The phases of the step in the middle, or the means of the two there: unlike the median of each phase, they still sum
// to that step.
std::map<std::string, double> middle_of(const std::vector<double>& steps,
                                        const std::vector<std::map<std::string, double>>& phases) {
  std::vector<std::size_t> order(steps.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return steps[a] < steps[b]; });
  std::map<std::string, double> middle;
  const std::size_t n = steps.size();
  for (const std::size_t at : {order[(n - 1) / 2], order[n / 2]})
    for (const auto& [name, seconds] : phases[at]) middle[name] += seconds / 2;
  return middle;
}

}  // namespace

Measurement measure_steps(Model& model, const DeviceMesh& mesh, const TensorMap& latents, const TensorMap& times,
                          const MeasureOptions& options) {
  for (int i = 0; i < options.warmup; ++i) model.step(latents, times);

  // Time collectives of each axis were under way on this rank, step by step.
  std::map<std::string, double> in_flight;
  mesh.ledger().observe([&](const CollectiveRecord& record) {
    if (record.done && record.axis != "world")
      in_flight[record.axis] += std::chrono::duration<double>(*record.done - record.issued).count();
  });
  PhaseTimes times_of_calls;
  std::vector<double> steps;
  std::vector<std::map<std::string, double>> phases;
  std::map<std::string, std::int64_t> counts;
  std::map<std::string, std::uint64_t> bytes;
  for (int i = 0; i < options.iterations; ++i) {
    synchronize(mesh.device());
    mesh.world().barrier();
    in_flight.clear();
    mesh.ledger().reset();
    times_of_calls.reset();
    const auto start = Clock::now();
    model.step(latents, times);
    synchronize(mesh.device());
    const double step = seconds_since(start);
    counts = mesh.ledger().counts();
    bytes = mesh.ledger().wire_bytes();
    steps.push_back(step);
    phases.push_back(phases_of(mesh, times_of_calls, step));
    for (const auto& [axis, seconds] : in_flight) phases.back()["in_flight_" + axis] = seconds;
  }
  mesh.ledger().observe({});

  Measurement m;
  m.steps_s = slowest(mesh, steps);
  m.step_median = Seconds(median(m.steps_s));
  m.step_min = Seconds(*std::min_element(m.steps_s.begin(), m.steps_s.end()));
  m.step_max = Seconds(*std::max_element(m.steps_s.begin(), m.steps_s.end()));
  m.step_spread = Seconds(spread(m.steps_s));
  m.iterations = options.iterations;
  m.warmup = options.warmup;
  const auto on_device = static_cast<double>(peak_device_bytes(mesh.device()));
  m.peak_memory = Bytes(slowest(mesh, {mesh.device().is_cpu() ? peak_bytes() : on_device})[0]);
  m.phases_s = middle_of(steps, phases);
  for (const auto& [axis, sent] : bytes) m.wire_bytes[axis] = static_cast<double>(sent);
  m.collectives = counts;
  return m;
}

}  // namespace hpplan::runtime
