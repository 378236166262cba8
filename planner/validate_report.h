// Validations as text and as JSON.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "planner/validate.h"

namespace hpplan {

std::string validation_text(const Validation& validation, bool detail);
std::string ablation_text(const std::vector<std::pair<std::string, Validation>>& all);
// {groups: [{id, regret, tau, mape, ...}], overall: {regret_mean, tau_mean, mape_median,
// ...}}; null where a group has no set to judge.
std::string validation_json(
    const Validation& validation,
    const std::vector<std::pair<std::string, Validation>>& ablations = {});

}  // namespace hpplan
