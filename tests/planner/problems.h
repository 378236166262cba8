// Whole problems from the embedded profiles and machines, by name.
#pragma once

#include <string>

#include "planner/problem.h"
#include "planner/spec/catalog.h"
#include "planner/spec/engine_yaml.h"
#include "planner/spec/model_yaml.h"
#include "planner/spec/rates_yaml.h"
#include "planner/spec/topology_yaml.h"

namespace hpplan::testing {

inline Topology topology_named(const std::string& name) {
  static const Catalog catalog;
  const auto entry = catalog.find(DataKind::kTopology, name);
  return parse_topology(entry.text, entry.file);
}

inline Problem problem_on(const Topology& topology, const std::string& model,
                          const std::string& engine,
                          FabricRules rules = FabricRules::kNotApplicable) {
  static const Catalog catalog;
  const auto m = catalog.find(DataKind::kModel, model);
  const auto e = catalog.find(DataKind::kEngine, engine);
  const auto d = catalog.find(DataKind::kDevice, topology.device);
  ModelSpec spec = parse_model(m.text, m.file);
  Engine software = parse_engine(e.text, e.file);
  use_stack(software, topology.vendor);
  FabricRates fabric;
  if (!topology.fabric.empty()) {
    const auto f = catalog.find(DataKind::kFabric, topology.fabric);
    fabric = parse_fabric(f.text, f.file);
  }
  const Workload workload = default_workload(spec);
  return make_problem(std::move(spec), workload, topology, std::move(software),
                      parse_device(d.text, d.file), std::move(fabric), rules);
}

inline Problem problem_named(const std::string& model, const std::string& topology,
                             const std::string& engine,
                             FabricRules rules = FabricRules::kNotApplicable) {
  return problem_on(topology_named(topology), model, engine, rules);
}

}  // namespace hpplan::testing
