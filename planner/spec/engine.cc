#include "planner/spec/engine.h"

#include <algorithm>
#include <array>

#include "planner/spec/error.h"

namespace hpplan {

std::string_view to_string(HeadPolicy policy) {
  constexpr std::array<std::string_view, 4> kNames = {"strict", "pad-real-head",
                                                      "pad-any", "uneven"};
  return kNames[static_cast<std::size_t>(policy)];
}

std::string_view to_string(RowPolicy policy) {
  constexpr std::array<std::string_view, 3> kNames = {"strict", "pad", "uneven"};
  return kNames[static_cast<std::size_t>(policy)];
}

void use_stack(Engine& engine, const std::string& vendor, const std::string& name) {
  std::vector<std::string> names;
  for (const NamedStack& stack : engine.stacks) {
    names.push_back(stack.name);
    const bool fits = stack.vendors.empty() ||
                      std::find(stack.vendors.begin(), stack.vendors.end(), vendor) !=
                          stack.vendors.end();
    if (name.empty() ? !fits : stack.name != name) continue;
    engine.stack = stack.rates;
    engine.stack.name = stack.name;
    return;
  }
  std::string all;
  for (const std::string& n : names) all += (all.empty() ? "" : ", ") + n;
  if (name.empty())
    throw InputError(concat("engine ", engine.name, " has no software stack for ", vendor,
                            " (it has: ", all, ")"));
  throw InputError(concat("engine ", engine.name, " has no software stack '", name,
                          "' (it has: ", all, ")", did_you_mean(name, names)));
}

}  // namespace hpplan
