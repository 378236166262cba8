#include "planner/search_notes.h"

#include <algorithm>
#include <cmath>

#include "planner/rules.h"
#include "planner/spec/error.h"
#include "planner/spec/quantity.h"

namespace hpplan {
namespace {

constexpr double kTie = 0.01;  // below it two predictions cannot be told apart

std::string name_of(const Layout& layout) {
  std::string text = layout.degrees.str();
  if (layout.degrees.ring() > 1)
    text += layout.method == RingMethod::kP2p ? " (p2p)" : " (allgather)";
  return text;
}

std::string seconds(Seconds s) { return concat(format_rounded(s.value, 4), " s"); }

std::string gib(Bytes b) { return concat(format_rounded(b.value / kGiB, 3), " GiB"); }

std::string percent(double part) { return concat(format_rounded(100 * part, 2), " %"); }

// Where tp alone ends, and what it would leave idle.
std::string tp_limit(const Problem& problem) {
  const int devices = problem.topology.devices();
  int limit = 1;
  std::string divisors;
  for (int tp = 1; tp <= devices; ++tp) {
    if (devices % tp != 0 || problem.model.heads % tp != 0) continue;
    if (!legal(check_degrees(problem, Degrees::make(tp, 1, 1), RingMethod::kP2p)))
      continue;
    limit = tp;
    divisors += concat(divisors.empty() ? "" : ", ", tp);
  }
  if (limit == devices) return "";
  return concat("tp alone stops at ", limit, ": of the divisors of ", devices, " only ",
                divisors, limit == 1 ? " is" : " are", " legal for ", problem.model.heads,
                " heads; ", devices - limit, " of ", devices, " devices would idle");
}

}  // namespace

std::vector<std::string> notes_of(const Problem& problem, const SearchOptions& options,
                                  const std::vector<Layout>& ranked) {
  std::vector<std::string> notes;
  const Layout& best = ranked.front();
  const int devices = problem.topology.devices();
  const auto used = static_cast<int>(best.degrees.product());
  if (used < devices)
    notes.push_back(concat(devices - used, " of ", devices, " devices of ",
                           problem.topology.name, " idle",
                           options.devices ? concat(" (--devices ", used, ")") : ""));
  if (const std::string limit = tp_limit(problem); !limit.empty()) notes.push_back(limit);

  if (ranked.size() > 1 && options.objective != Objective::kDevices) {
    std::size_t close = 0;
    std::string names;
    for (std::size_t i = 1; i < ranked.size(); ++i) {
      if (ranked[i].step.value > best.step.value * (1 + kTie)) break;
      ++close;
      if (close <= 3) names += concat(close > 1 ? ", " : "", name_of(ranked[i]));
    }
    if (close > 0)
      notes.push_back(concat(name_of(best), " and ", names,
                             close > 3 ? concat(" and ", close - 3, " more") : "",
                             " cannot be told apart (within 1 %): measure them"));
    const Layout& second = ranked[1];
    if (close == 0) {
      const double gain = second.step.value / best.step.value - 1;
      std::string why = concat("runner-up ", name_of(second), " would need ",
                               percent(1 - best.step / second.step), " off its ",
                               seconds(second.step), " a step to win");
      const double more = second.memory.peak() / best.memory.peak();
      why += concat("; it is ", percent(gain), " slower and its fullest rank holds ",
                    gib(second.memory.peak()));
      if (std::abs(more - 1) < kTie)
        why += ", as much";
      else
        why += concat(more > 1 ? ", more than " : ", against ", gib(best.memory.peak()));
      notes.push_back(why);
    }
  }
  return notes;
}

std::string cost_of_order(const Problem& problem, const Layout& chosen,
                          const Layout& free) {
  const double loss = chosen.step.value / free.step.value - 1;
  if (loss < kTie / 10)
    return concat("the rank order of ", problem.engine.name, " costs nothing here");
  return concat(
      "the rank order of ", problem.engine.name, " costs ", percent(loss), ": ",
      name_of(free), " placed as ",
      free.space ? to_string(problem.topology, *free.space, free.placement) : "given",
      " would take ", seconds(free.step));
}

std::string cost_of_eager(const Layout& chosen, const Layout& compiled) {
  const double loss = chosen.step.value / compiled.step.value - 1;
  if (loss < kTie / 10) return "";
  return concat("eager fabric rules cost ", percent(loss), ": compiled rules allow ",
                name_of(compiled), " on ", compiled.degrees.product(), " devices at ",
                seconds(compiled.step), " a step");
}

std::string unknown_peers(const Layout& chosen, const Layout& without) {
  std::string text =
      concat("peer access of this machine is not known: ", name_of(chosen), " takes ",
             seconds(chosen.step), " a step if it works; if it does not, ");
  text += without.degrees == chosen.degrees && without.method == chosen.method
              ? concat("it takes ", seconds(without.step), " and is still best")
              : concat(name_of(without), " is best at ", seconds(without.step));
  return text + "; time an all-to-all and a send/recv at 2, 4 and 8 ranks to know";
}

}  // namespace hpplan
