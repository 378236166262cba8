// Plan and its parts as documents, and the sections a plan's hashes cover. For plan_*.cc and reports.
#pragma once

#include "planner/spec/document.h"
#include "planner/spec/plan.h"

namespace hpplan {

Document model_document(const ModelSpec& model);  // the keys of profiles/models/*.yaml
Document workload_document(const Workload& workload, const Rows& rows);
Document axes_document(const Candidate& candidate);
Document mesh_document(const Mesh& mesh);
Document prediction_document(const Prediction& prediction);
Document memory_document(const MemoryEstimate& memory);
Document measurement_document(const Measurement& measurement);
Document finding_document(const Finding& finding);

// What the plan's hash covers: all that a run of the chosen mesh rests on, in file order. Not what it was compared
// with (runners-up, rejections, notes), nor what was measured later.
Document plan_core(const Plan& plan);
Document plan_document(const Plan& plan, bool explain);

}  // namespace hpplan
