#include "runtime/measure.h"

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "runtime/accelerators.h"

namespace hpplan::runtime {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
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

// The largest of every rank, element by element.
std::vector<double> largest(const DeviceMesh& mesh, const std::vector<double>& own) {
  const at::Tensor mine = at::tensor(own, at::kDouble);
  const at::Tensor all = mesh.world().all_reduce(mine, ReduceOp::kMax);
  return {all.data_ptr<double>(), all.data_ptr<double>() + all.numel()};
}

}  // namespace

Measurement measure_steps(Model& model, const DeviceMesh& mesh, const TensorMap& latents, const TensorMap& times,
                          const MeasureOptions& options) {
  for (int i = 0; i < options.warmup; ++i) model.step(latents, times);

  // Time this rank waited in collectives of each axis, step by step.
  std::map<std::string, double> waited;
  std::map<std::string, std::vector<double>> phases;
  mesh.ledger().observe([&](const CollectiveRecord& record) {
    if (record.done && record.axis != "world")
      waited[record.axis] += std::chrono::duration<double>(*record.done - record.issued).count();
  });
  std::vector<double> steps;
  std::map<std::string, std::int64_t> counts;
  std::map<std::string, std::uint64_t> bytes;
  for (int i = 0; i < options.iterations; ++i) {
    synchronize(mesh.device());
    mesh.world().barrier();
    waited.clear();
    mesh.ledger().reset();
    const auto start = Clock::now();
    model.step(latents, times);
    synchronize(mesh.device());
    const double step = seconds_since(start);
    counts = mesh.ledger().counts();
    bytes = mesh.ledger().wire_bytes();
    steps.push_back(step);
    for (const auto& [axis, seconds] : waited)
      phases["in_flight_" + axis].push_back(seconds);
    phases["step_of_this_rank"].push_back(step);
  }
  mesh.ledger().observe({});

  Measurement m;
  m.steps_s = largest(mesh, steps);
  m.step_median = Seconds(median(m.steps_s));
  m.step_min = Seconds(*std::min_element(m.steps_s.begin(), m.steps_s.end()));
  m.step_max = Seconds(*std::max_element(m.steps_s.begin(), m.steps_s.end()));
  std::vector<double> away;
  for (const double s : m.steps_s) away.push_back(std::abs(s - m.step_median.value));
  m.step_spread = Seconds(median(away));
  m.iterations = options.iterations;
  m.warmup = options.warmup;
  const auto on_device = static_cast<double>(peak_device_bytes(mesh.device()));
  m.peak_memory = Bytes(largest(mesh, {mesh.device().is_cpu() ? peak_bytes() : on_device})[0]);
  for (const auto& [name, values] : phases) m.phases_s[name] = median(values);
  for (const auto& [axis, sent] : bytes) m.wire_bytes[axis] = static_cast<double>(sent);
  m.collectives = counts;
  return m;
}

}  // namespace hpplan::runtime
