// Memory: an error per stage that does not fit the fullest rank, and one for the host
// while loading.
#include <array>
#include <cstdio>

#include "planner/memory.h"
#include "planner/rules_parts.h"
#include "planner/spec/error.h"

namespace hpplan {
namespace {

struct Stage {
  const char* name;
  Bytes MemoryEstimate::*bytes;
};
constexpr std::array<Stage, 4> kStages = {{{"load", &MemoryEstimate::load},
                                           {"text", &MemoryEstimate::text},
                                           {"denoise", &MemoryEstimate::denoise},
                                           {"decode", &MemoryEstimate::decode}}};

std::string gib(Bytes bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f GiB", bytes.value / kGiB);
  return text;
}

std::string integer(Bytes bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f", bytes.value);
  return text;
}

// The smallest legal tp above this one, machine size or not, with which the stage fits.
std::string smallest_tp(const Problem& problem, const Degrees& degrees, RingMethod method,
                        const Stage& stage) {
  const std::vector<int> legal = rules::legal_tp(problem, problem.model.heads);
  std::vector<int> tried;
  for (const int tp : legal) {
    if (tp <= degrees.tp()) continue;
    Degrees larger = degrees;
    larger[Axis::kTp] = tp;
    const auto split = split_of(problem, larger, method);
    if (!split) continue;
    tried.push_back(tp);
    const MemoryEstimate memory = estimate_memory(problem, larger, method, *split);
    if (memory.*stage.bytes > memory.limit) continue;
    const std::int64_t devices = larger.product();
    return concat("tp ", tp, " is the smallest that fits",
                  devices > problem.topology.devices()
                      ? concat(" (", devices, " devices with the other axes as they are)")
                      : std::string());
  }
  return tried.empty()
             ? "no larger tp is legal; fewer bytes a weight, or offloading"
             : concat("tp ", rules::list(tried),
                      " do not fit either; fewer bytes a weight, or offloading");
}

}  // namespace

std::vector<Finding> check_memory(const Problem& problem, const Degrees& degrees,
                                  RingMethod method, const MemoryEstimate& memory) {
  std::vector<Finding> findings;
  for (const Stage& stage : kStages) {
    const Bytes needed = memory.*stage.bytes;
    if (needed <= memory.limit) continue;
    findings.push_back(rules::error(
        concat("memory-", stage.name),
        concat(stage.name, " needs ", gib(needed), " on the fullest rank of ",
               degrees.str(), "; ", gib(memory.limit), " are usable"),
        smallest_tp(problem, degrees, method, stage),
        {{"needed_bytes", integer(needed)}, {"limit_bytes", integer(memory.limit)}}));
  }
  if (problem.topology.host_memory.value > 0 &&
      memory.host > problem.topology.host_memory)
    findings.push_back(rules::error(
        "memory-host",
        concat("loading needs ", gib(memory.host), " of host memory on a node; ",
               gib(problem.topology.host_memory), " are there"),
        "load ranks one after the other, or share the mapped checkpoint",
        {{"needed_bytes", integer(memory.host)},
         {"limit_bytes", integer(problem.topology.host_memory)}}));
  return findings;
}

}  // namespace hpplan
