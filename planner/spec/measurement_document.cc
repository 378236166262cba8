// Measurement -> document. A failed run is its error text and what ran, never times.
#include "planner/spec/plan_document.h"
#include "planner/spec/plan_yaml.h"

namespace hpplan {

Document measurement_document(const Measurement& m) {
  Document d;
  if (!m.error.empty()) {
    d["error"] = m.error;
  } else {
    d["step_s"] = m.step_median.value;
    d["step_min_s"] = m.step_min.value;
    d["step_max_s"] = m.step_max.value;
    d["step_spread_s"] = m.step_spread.value;
    d["iterations"] = m.iterations;
    d["warmup"] = m.warmup;
    d["peak_bytes"] = static_cast<std::int64_t>(m.peak_memory.value);
    if (!m.phases_s.empty()) d["phases_s"] = m.phases_s;
    if (!m.wire_bytes.empty()) d["wire_bytes"] = m.wire_bytes;
    if (!m.collectives.empty()) d["collectives"] = m.collectives;
    if (!m.steps_s.empty()) d["steps_s"] = m.steps_s;
  }
  if (!m.plan_hash.empty()) d["plan_hash"] = m.plan_hash;
  if (!m.software.empty()) d["software"] = m.software;
  if (!m.host.empty()) d["host"] = m.host;
  if (!m.file.empty()) d["file"] = m.file;
  return d;
}

std::string measurement_to_yaml(const Measurement& m) {
  Document d;
  d["hpplan_measurement"] = 1;
  d.update(measurement_document(m));
  return to_yaml(d);
}

}  // namespace hpplan
