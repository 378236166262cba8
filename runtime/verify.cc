#include "runtime/verify.h"

#include <ATen/ATen.h>

#include "planner/spec/error.h"

namespace hpplan::runtime {
namespace {

double relative_l2(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.to(at::kDouble), y = b.to(at::kDouble);
  return ((x - y).norm() / y.norm().clamp_min(1e-30)).item<double>();
}

TensorMap on_one_device(const Plan& plan, DType dtype, WeightSource& weights, const TensorMap& request,
                        const TensorMap& latents, const TensorMap& times) {
  Plan single = plan;
  single.chosen.mesh = Mesh(Degrees{}, {}, {0}, {0});
  single.workload.dtype = dtype;
  const DeviceMesh mesh = DeviceMesh::single();
  const auto model = make_model(single, mesh, weights);
  model->prepare(request);
  return model->gather(model->step(model->local(latents), times));
}

}  // namespace

Verdict verify_step(const Plan& plan, Model& model, const DeviceMesh& mesh, WeightSource& weights,
                    const TensorMap& request, const TensorMap& latents, const TensorMap& times) {
  Verdict verdict;
  mesh.ledger().reset();
  const TensorMap velocity = model.step(model.local(latents), times);
  const auto counted = mesh.ledger().counts();
  const TensorMap whole = model.gather(velocity);

  // Every rank's share, as text so that rank 0 can name who is wrong.
  const LocalShape shape = model.shape();
  std::string own;
  const Degrees& degrees = mesh.mesh().degrees();
  if (shape.tp_heads * degrees.tp() != plan.model.heads && plan.model.kv_heads == plan.model.heads)
    own += concat("holds ", shape.tp_heads, " heads under tp ", degrees.tp(), " of ", plan.model.heads, "; ");
  if (shape.attention_heads > plan.chosen.split.busiest_heads)
    own += concat("computes ", shape.attention_heads, " heads, the plan says at most ", plan.chosen.split.busiest_heads, "; ");
  if (shape.rows > plan.chosen.split.busiest_rows)
    own += concat("holds ", shape.rows, " rows, the plan says at most ", plan.chosen.split.busiest_rows, "; ");
  if (shape.total_rows != plan.chosen.split.rows)
    own += concat("the request has ", shape.total_rows, " rows, the plan ", plan.chosen.split.rows, "; ");
  for (const auto& [what, count] : model.expected_collectives()) {
    const auto it = counted.find(what);
    const std::int64_t seen = it == counted.end() ? 0 : it->second;
    if (seen != count) own += concat(what, " ran ", seen, " times, ", count, " are announced; ");
  }
  const std::vector<std::string> told = mesh.world().all_gather_text(own.empty() ? "ok" : own);
  for (std::size_t rank = 0; rank < told.size(); ++rank)
    if (told[rank] != "ok") verdict.failures.push_back(concat("rank ", rank, ": ", told[rank]));
  for (const auto& [what, count] : counted) verdict.lines.push_back(concat(what, " x ", count));

  if (mesh.main()) {
    const DType dtype = plan.workload.dtype;
    const TensorMap reference = on_one_device(plan, DType::kF32, weights, request, latents, times);
    TensorMap same;
    if (dtype != DType::kF32) same = on_one_device(plan, dtype, weights, request, latents, times);
    for (const auto& [stream, expected] : reference) {
      if (expected.numel() == 0) continue;
      const double error = relative_l2(whole.at(stream), expected);
      const double floor = dtype == DType::kF32 ? 1e-5 : 1.5 * relative_l2(same.at(stream), expected);
      verdict.lines.push_back(concat(stream, ": relative L2 ", error, ", at most ", floor));
      if (!(error <= floor))
        verdict.failures.push_back(concat(stream, ": relative L2 against one device is ", error, ", more than ", floor));
    }
  }
  const std::vector<std::string> outcome =
      mesh.world().all_gather_text(verdict.failures.empty() ? "ok" : "failed");
  if (!mesh.main() && outcome[0] != "ok" && verdict.failures.empty()) verdict.failures.push_back("see rank 0");
  return verdict;
}

}  // namespace hpplan::runtime
