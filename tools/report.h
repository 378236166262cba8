// Plans and findings as tables for people. Reads values, computes nothing but layout.
#pragma once

#include <string>
#include <vector>

#include "planner/check.h"
#include "planner/spec/plan.h"
#include "tools/text.h"

namespace hpplan::tools {

std::string plan_table(const Plan& plan, bool explain, Style style);
std::string pareto_table(const Plan& plan, const std::vector<const Candidate*>& frontier, Style style);
std::string rejection_table(const std::vector<Rejection>& rejections, bool all, Style style);
std::string check_text(const CheckResult& result, Style style);

}  // namespace hpplan::tools
