// The plan file and the measurement file: values <-> text. A plan is written once and read by another program,
// maybe months later: it carries a hash of everything in it, and hashes of its sections, so that an edited or
// stale plan refuses to load and names the section that changed. Written files are byte-stable for the same
// values.
#pragma once

#include <string>

#include "planner/spec/plan.h"

namespace hpplan {

// Both are the same document. explain adds `candidates` and every rejection instead of one example a code.
std::string plan_to_yaml(const Plan& plan, bool explain = false);
std::string plan_to_json(const Plan& plan, bool explain = false);

// The hash that plan_to_* writes: of the document without `measured`, so that measuring a plan does not make
// it another one.
std::string plan_hash(const Plan& plan);

// YAML or JSON. Throws InputError with file, line and column for anything malformed, and for a plan whose
// content is not what its hash says, naming the section.
// candidates, runners-up and rejections are not read back: a read plan is for running.
Plan parse_plan(const std::string& text, const std::string& file);
Plan read_plan(const std::string& path);

std::string measurement_to_yaml(const Measurement& measurement);
Measurement parse_measurement(const std::string& text, const std::string& file);
Measurement read_measurement(const std::string& path);

// Writes through a temporary name beside `path`, synced and renamed: an interrupted run leaves the old file or
// the new one, never half. Throws InputError when the place cannot be written.
void write_file(const std::string& path, const std::string& text);

}  // namespace hpplan
