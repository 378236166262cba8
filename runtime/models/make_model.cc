#include "planner/spec/error.h"
#include "runtime/models/minimax_h3.h"

namespace hpplan::runtime {
namespace {

at::ScalarType stack_dtype(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return at::kFloat;
    case DType::kBf16:
      return at::kBFloat16;
    case DType::kF16:
      return at::kHalf;
    default:
      throw InputError(
          concat("dtype ", to_string(dtype), ": hprun computes in f32, bf16 or f16"));
  }
}

UnevenHeads uneven_heads(HeadPolicy policy) {
  switch (policy) {
    case HeadPolicy::kStrict:
      return UnevenHeads::kRefuse;
    case HeadPolicy::kUneven:
      return UnevenHeads::kUneven;
    case HeadPolicy::kPadRealHead:
    case HeadPolicy::kPadAny:
      return UnevenHeads::kPad;
  }
  return UnevenHeads::kRefuse;
}

}  // namespace

std::unique_ptr<Model> make_model(const Plan& plan, const DeviceMesh& mesh,
                                  WeightSource& weights) {
  if (plan.model.class_name != "MiniMaxH3Transformer3DModel") {
    throw InputError(concat(
        "model ", plan.model.name,
        ": hprun implements MiniMaxH3Transformer3DModel, this plan's model is ",
        plan.model.class_name.empty() ? "of no diffusers class" : plan.model.class_name));
  }
  if (mesh.mesh().degrees().cfg() > 1) {
    throw InputError(concat("cfg ", mesh.mesh().degrees().cfg(),
                            ": MiniMax-H3 is guidance-distilled and has one branch"));
  }
  H3Config config = h3_config_from_spec(plan.model);
  if (const std::string path = weights.config_path(); !path.empty()) {
    config = h3_config_from_json(path);
    check_same_model(config, plan.model, path);
  }
  H3Options options;
  options.dtype = stack_dtype(plan.workload.dtype);
  options.attention.ring_method = plan.chosen.ring_method;
  options.attention.uneven_heads = uneven_heads(plan.chosen.split.mode.policy);
  options.pad_rows = plan.chosen.split.mode.rows == RowPolicy::kPad;
  return std::make_unique<MiniMaxH3>(config, mesh, weights, options);
}

}  // namespace hpplan::runtime
