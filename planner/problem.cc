#include "planner/problem.h"

namespace hpplan {

Problem make_problem(ModelSpec model, Workload workload, Topology topology, Engine engine, DeviceRates device,
                     FabricRates fabric_rates, FabricRules rules) {
  Problem problem;
  problem.rows = rows_of(model, workload);
  problem.fabric = std::make_shared<const Fabric>(topology, fabric_rates);
  problem.model = std::move(model);
  problem.workload = workload;
  problem.topology = std::move(topology);
  fit_stack(engine, problem.topology.vendor);
  problem.engine = std::move(engine);
  problem.device = std::move(device);
  problem.fabric_rates = std::move(fabric_rates);
  problem.fabric_rules = rules;
  return problem;
}

}  // namespace hpplan
