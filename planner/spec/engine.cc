#include "planner/spec/engine.h"

#include <algorithm>
#include <array>

#include "planner/spec/error.h"

namespace hpplan {

std::string_view to_string(ComponentPlace place) {
  constexpr std::array<std::string_view, 3> kNames = {"resident", "host-when-short",
                                                      "elsewhere"};
  return kNames[static_cast<std::size_t>(place)];
}

std::string_view to_string(HeadPolicy policy) {
  constexpr std::array<std::string_view, 4> kNames = {"strict", "pad-real-head",
                                                      "pad-any", "uneven"};
  return kNames[static_cast<std::size_t>(policy)];
}

std::string_view to_string(RowPolicy policy) {
  constexpr std::array<std::string_view, 3> kNames = {"strict", "pad", "uneven"};
  return kNames[static_cast<std::size_t>(policy)];
}

namespace {

bool is_for(const NamedStack& stack, const std::string& vendor) {
  return stack.vendors.empty() || std::find(stack.vendors.begin(), stack.vendors.end(),
                                            vendor) != stack.vendors.end();
}

void take(Engine& engine, const NamedStack& stack) {
  engine.stack = stack.rates;
  engine.stack.name = stack.name;
}

}  // namespace

void use_stack(Engine& engine, const std::string& vendor, const std::string& name) {
  std::vector<std::string> names;
  std::string all;
  for (const NamedStack& stack : engine.stacks) {
    if (name.empty() ? is_for(stack, vendor) : stack.name == name)
      return take(engine, stack);
    names.push_back(stack.name);
    all += (all.empty() ? "" : ", ") + stack.name;
  }
  if (name.empty())
    throw InputError(concat("engine ", engine.name, " has no software stack for ", vendor,
                            " (it has: ", all, ")"));
  throw InputError(concat("engine ", engine.name, " has no software stack '", name,
                          "' (it has: ", all, ")", did_you_mean(name, names)));
}

void fit_stack(Engine& engine, const std::string& vendor) {
  for (const NamedStack& stack : engine.stacks)
    if (stack.name == engine.stack.name && is_for(stack, vendor)) return;
  for (const NamedStack& stack : engine.stacks)
    if (is_for(stack, vendor)) return take(engine, stack);
}

}  // namespace hpplan
