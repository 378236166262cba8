// Problem: what is planned, all of it. The one argument every stage takes besides a mesh.
#pragma once

#include <memory>

#include "planner/fabric.h"
#include "planner/spec/engine.h"
#include "planner/spec/model.h"
#include "planner/spec/rates.h"
#include "planner/spec/topology.h"
#include "planner/spec/workload.h"

namespace hpplan {

// Parts of the cost model that `hpplan validate --ablate` can switch off.
struct Ablation {
  bool contention = true;
  bool head_padding = true;
  bool host_dispatch = true;
  bool ring_merge = true;
  bool elementwise = true;
};

struct Problem {
  ModelSpec model;
  Workload workload;
  Rows rows;
  Topology topology;
  Engine engine;
  DeviceRates device;
  FabricRates fabric_rates;
  FabricRules fabric_rules = FabricRules::kNotApplicable;
  Ablation ablation;
  std::shared_ptr<const Fabric> fabric;  // built by make_problem
};

// Derives rows and builds the fabric. Throws InputError when model, workload and topology do not fit each
// other (frames the model cannot take, no rates for the device).
Problem make_problem(ModelSpec model, Workload workload, Topology topology, Engine engine, DeviceRates device,
                     FabricRates fabric_rates, FabricRules rules);

}  // namespace hpplan
