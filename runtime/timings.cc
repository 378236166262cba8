#include "runtime/timings.h"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>

#include "planner/spec/error.h"

namespace hpplan::runtime {

double median(std::vector<double> values) {
  HP_CHECK(!values.empty(), "no timing");
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

double spread(const std::vector<double>& values) {
  const double middle = median(values);
  std::vector<double> away;
  for (const double value : values) away.push_back(std::abs(value - middle));
  return median(away);
}

std::vector<double> slowest(const DeviceMesh& mesh, const std::vector<double>& own) {
  const at::Tensor mine = at::tensor(own, at::kDouble);
  const at::Tensor all = mesh.world().all_reduce(mine, ReduceOp::kMax);
  return {all.data_ptr<double>(), all.data_ptr<double>() + all.numel()};
}

}  // namespace hpplan::runtime
