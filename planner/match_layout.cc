#include "planner/match_layout.h"

#include "planner/match_text.h"
#include "planner/spec/error.h"

namespace hpplan {

// Degrees, ring method and weight shards of a row; a reason when its layout is none of
// ours.
std::string read_layout(const MeasuredRow& row, MatchedRow& matched) {
  int ring = row.ring;
  if (const auto gather = row.other.find("agkv"); gather != row.other.end()) {
    const auto degree = whole(gather->second);
    if (!degree) return concat("K/V gather degree '", gather->second, "' is no number");
    if (ring > 1) return "a ring and a K/V gather at once";
    ring = *degree;
    matched.method = RingMethod::kAllGather;
  }
  matched.degrees = Degrees::make(row.tp, ring, row.ulysses, row.cfg);
  if (matched.degrees.product() != row.devices)
    return concat(matched.degrees.str(), " is ", matched.degrees.product(), " ranks on ",
                  row.devices, " devices");
  for (const char* key : {"fsdp", "hsdp"})
    if (const auto shards = row.other.find(key); shards != row.other.end())
      matched.weight_shards = whole(shards->second).value_or(1);
  return "";
}

std::string read_value(const MeasuredGroup& group, double value,
                       std::optional<int> forwards, MatchedRow& matched) {
  const std::string unit = lower(group.unit);
  const auto ends = [&](const char* with) {
    const std::string end = with;
    return unit.size() > end.size() &&
           unit.compare(unit.size() - end.size(), end.size(), end) == 0;
  };
  if (ends("/s")) {  // iterations or tokens a second
    matched.seconds = 1 / value;
    matched.per_step = matched.op.has_value();
    return "";
  }
  const std::size_t slash = unit.find('/');
  const std::string time = unit.substr(0, slash);
  if (time != "s" && time != "ms" && time != "us" && time != "min")
    return concat("unit '", group.unit, "' is neither a time nor a rate");
  matched.seconds = value * (time == "ms"    ? 1e-3
                             : time == "us"  ? 1e-6
                             : time == "min" ? 60
                                             : 1);
  if (slash != std::string::npos || matched.op) {
    matched.per_step = true;
  } else if (forwards) {
    matched.seconds /= *forwards;
    matched.per_step = true;
  }
  return "";
}

}  // namespace hpplan
