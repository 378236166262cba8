// Published measurements of hybrid layouts: the file format of profiles/measurements/ and of `hpplan validate
// --against FILE`. Groups of rows that may be compared with one another; free text says what ran, and match.h
// turns it into profiles.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hpplan {

struct MeasuredRow {
  std::string subgroup;           // rows are compared inside one subgroup only
  int tp = 1, ulysses = 1, ring = 1, cfg = 1;
  std::map<std::string, std::string> other;  // "agkv" -> "8", "fsdp", "pipefusion", ...
  int devices = 0;
  std::optional<double> value;    // in the group's unit; none for a run that failed
  std::optional<double> memory_gib;
  std::string status;             // "" ran; "does_not_fit", "oom", ...
  int line = 0;
};

struct MeasuredGroup {
  std::string id, model, software, unit, quantity, use;
  std::map<std::string, std::string> workload;  // scalars as text
  std::map<std::string, std::string> hardware;
  std::vector<MeasuredRow> rows;
  int line = 0;
};

// Throws InputError with the place for what is no list of groups, a group without id, model, unit or rows, a row
// without devices or with degrees below 1. Keys that are not needed are passed over: publications differ.
std::vector<MeasuredGroup> parse_measurements(const std::string& text, const std::string& file);

}  // namespace hpplan
