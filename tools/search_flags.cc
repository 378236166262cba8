#include "tools/search_flags.h"

#include "planner/spec/quantity.h"

namespace hpplan::tools {

void add_search_flags(CLI::App& app, SearchFlags& f, Inputs& inputs) {
  const std::string search = "The search";
  app.add_option("--devices", inputs.devices,
                 "use exactly so many (default: every useful number)")
      ->group(search);
  app.add_option("--tp", f.tp, "pin the tensor-parallel degree")->group(search);
  app.add_option("--ring", f.ring, "pin the ring degree")->group(search);
  app.add_option("--ulysses", f.ulysses, "pin the Ulysses degree")->group(search);
  app.add_option("--cfg", f.cfg, "pin the guidance-branch degree")->group(search);
  app.add_option("--replica", f.replica, "pin the number of replicas")->group(search);
  app.add_option("--ring-method", f.ring_method, "p2p, or allgather (K/V gather)")
      ->check(CLI::IsMember({"p2p", "allgather"}))
      ->group(search);
  app.add_option("--objective", f.objective,
                 "latency, throughput (replicas allowed) or devices (fewest)")
      ->check(CLI::IsMember({"latency", "throughput", "devices"}))
      ->capture_default_str()
      ->group(search);
  app.add_option("--max-memory", f.max_memory, "most memory of a rank, such as 60GiB")
      ->group(search);
  app.add_flag("--every-placement", f.every_placement,
               "candidates of every placement, not of each factorization's best alone")
      ->group(search);
  app.add_option("--latency-budget", f.latency_budget, "longest step, such as 500ms")
      ->group(search);
}

SearchOptions search_options(const SearchFlags& f, const Inputs& inputs) {
  SearchOptions o;
  const auto degree = [](const char* flag, const std::optional<int>& value) {
    if (value && (*value < 1 || *value > (1 << 20)))
      throw InputError({flag}, "",
                       concat("expected a degree of at least 1, got ", *value));
    return value;
  };
  o.devices = inputs.devices;  // the search knows the machine and names its range
  o.tp = degree("--tp", f.tp);
  o.ring = degree("--ring", f.ring);
  o.ulysses = degree("--ulysses", f.ulysses);
  o.cfg = degree("--cfg", f.cfg);
  o.replica = degree("--replica", f.replica);
  if (!f.ring_method.empty())
    o.ring_method = f.ring_method == "p2p" ? RingMethod::kP2p : RingMethod::kAllGather;
  o.every_placement = f.every_placement;
  o.objective = f.objective == "latency"      ? Objective::kLatency
                : f.objective == "throughput" ? Objective::kThroughput
                                              : Objective::kDevices;
  if (!f.max_memory.empty()) o.max_memory = parse_bytes(f.max_memory, {"--max-memory"});
  if (!f.latency_budget.empty())
    o.latency_budget = parse_seconds(f.latency_budget, {"--latency-budget"});
  return o;
}

}  // namespace hpplan::tools
