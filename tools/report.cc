#include "tools/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "planner/spec/error.h"
#include "planner/spec/quantity.h"
#include "tools/picture.h"

namespace hpplan::tools {
namespace {

// "tp4 x ring14 (p2p)"
std::string name_of(const Candidate& c) {
  std::string text = c.mesh.degrees().str();
  if (c.mesh.degrees().ring() > 1)
    text += c.ring_method == RingMethod::kP2p ? " (p2p)" : " (allgather)";
  return text;
}

std::string gib(Bytes b) { return fmt::format("{:.1f}", b.value / kGiB); }

std::string ring_text(const Candidate& c) {
  const int ring = c.mesh.degrees().ring();
  return ring == 1 ? "1" : fmt::format("{} {}", ring, c.ring_method == RingMethod::kP2p ? "p2p" : "gather");
}

std::string heads_text(const Candidate& c) {
  const Split& s = c.split;
  if (c.mesh.degrees().ulysses() == 1 || s.padded_heads == s.local_heads) return std::to_string(s.busiest_heads);
  return fmt::format("{} ({}->{})", s.busiest_heads, s.local_heads, s.padded_heads);
}

struct Part {
  const char* name;
  Seconds CostBreakdown::*value;
};
constexpr Part kParts[] = {{"compute", &CostBreakdown::compute},
                           {"attention", &CostBreakdown::attention},
                           {"tp", &CostBreakdown::tp},
                           {"ulysses", &CostBreakdown::ulysses},
                           {"ring", &CostBreakdown::ring_exposed},
                           {"cfg", &CostBreakdown::cfg},
                           {"host", &CostBreakdown::overhead}};

std::string breakdown_text(const CostBreakdown& b) {
  std::string text;
  for (const Part& part : kParts)
    if ((b.*part.value).value > 0)
      text += fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ", part.name, 100 * (b.*part.value / b.step()));
  return text;
}

// What the first saves over another, largest causes first.
std::string why_first(const Candidate& first, const Candidate& other) {
  std::vector<std::pair<double, const char*>> differences;
  for (const Part& part : kParts)
    differences.emplace_back(
        (other.predicted.breakdown.*part.value).value - (first.predicted.breakdown.*part.value).value, part.name);
  std::sort(differences.begin(), differences.end(),
            [](const auto& a, const auto& b) { return std::abs(a.first) > std::abs(b.first); });
  std::string text;
  // The largest two, and as many more as it takes to see why the first is ahead.
  double ahead = 0;
  for (std::size_t i = 0; i < differences.size() && (i < 2 || ahead <= 0); ++i) {
    if (std::abs(differences[i].first) < 1e-9) continue;
    ahead += differences[i].first;
    text += fmt::format("{}{} {} on {}", text.empty() ? "" : ", ", time_text(Seconds(std::abs(differences[i].first))),
                        differences[i].first > 0 ? "less" : "more", differences[i].second);
  }
  return text;
}

// The first groups of an axis, as device ids.
std::string groups_text(const Mesh& mesh, Axis axis) {
  std::string text;
  const auto groups = mesh.groups(axis);
  constexpr std::size_t kGroups = 3, kMembers = 16;
  for (std::size_t g = 0; g < std::min(groups.size(), kGroups); ++g) {
    text += g ? " [" : "[";
    for (std::size_t i = 0; i < std::min(groups[g].size(), kMembers); ++i)
      text += fmt::format("{}{}", i ? " " : "", mesh.devices()[static_cast<std::size_t>(groups[g][i])]);
    text += groups[g].size() > kMembers ? " ...]" : "]";
  }
  return groups.size() > kGroups ? fmt::format("{} and {} more", text, groups.size() - kGroups) : text;
}

std::vector<std::string> header() {
  return {"#", "devices", "tp", "ring", "ulysses", "cfg", "replicas", "heads/rank", "step", "band", "GiB/rank",
          "placement"};
}

std::vector<std::string> row(const std::string& rank, const Candidate& c) {
  const Degrees& d = c.mesh.degrees();
  const Seconds step = c.measured && c.measured->error.empty() ? c.measured->step_median : c.predicted.step;
  return {rank,
          std::to_string(c.mesh.size()),
          std::to_string(d.tp()),
          ring_text(c),
          std::to_string(d.ulysses()),
          std::to_string(d.cfg()),
          std::to_string(d.replica()),
          heads_text(c),
          time_text(step) + (c.measured ? " measured" : ""),
          time_text(c.predicted.low) + " - " + time_text(c.predicted.high),
          gib(c.memory.peak()),
          c.placement.empty() ? "(rank order)" : c.placement};
}

}  // namespace

std::string plan_table(const Plan& plan, bool explain, Style style) {
  const Workload& w = plan.workload;
  std::string text = bold(fmt::format("{} on {}", plan.model.title, plan.topology.title.empty() ? plan.topology.name
                                                                                               : plan.topology.title),
                          style);
  text += fmt::format("\n{} rows ({}x{}", plan.rows.total(), w.width, w.height);
  if (w.frames > 1) text += fmt::format(", {} frames", w.frames);
  text += fmt::format("), {}, batch {}, {}, engine {}", to_string(w.dtype), w.batch,
                      w.branches > 1 ? fmt::format("{} guidance branches", w.branches) : "no guidance branches",
                      plan.engine.name);
  if (plan.fabric_rules != FabricRules::kNotApplicable)
    text += fmt::format(", fabric rules {}", to_string(plan.fabric_rules));
  text += fmt::format("; {} placements examined\n\n", plan.placements_examined);

  std::vector<std::vector<std::string>> rows = {header()};
  rows.push_back(row("1", plan.chosen));
  const std::vector<Candidate>& others = explain ? plan.candidates : plan.runners_up;
  int rank = 2;
  for (const Candidate& c : others) {
    if (explain && c.mesh == plan.chosen.mesh && c.ring_method == plan.chosen.ring_method) continue;
    rows.push_back(row(std::to_string(rank++), c));
  }
  text += columns(rows);

  const Candidate& best = plan.chosen;
  text += fmt::format("\nBest: {}. Its step: {} (source: {}).\n", name_of(best),
                      breakdown_text(best.predicted.breakdown), to_string(best.predicted.source));
  if (!plan.runners_up.empty())
    text += fmt::format("Why it wins over {}: {}.\n", name_of(plan.runners_up.front()),
                        why_first(best, plan.runners_up.front()));
  for (const Axis axis : {Axis::kTp, Axis::kUlysses, Axis::kRing, Axis::kCfg})
    if (best.mesh.degrees()[axis] > 1)
      text += fmt::format("  {:<8} groups {}\n", to_string(axis), groups_text(best.mesh, axis));
  text += placement_picture(plan.topology, best.mesh);
  for (const std::string& note : best.predicted.notes) text += "Note: " + note + "\n";
  for (const Finding& f : best.warnings) text += fmt::format("Warning ({}): {}\n", f.code, f.message);
  for (const std::string& note : plan.notes) text += "Note: " + note + "\n";
  if (!plan.rejections.empty()) text += "\n" + rejection_table(plan.rejections, explain, style);
  if (!explain && !plan.rejections.empty()) text += dim("--explain lists every candidate and every rejection.\n", style);
  return text;
}

std::string pareto_table(const Plan& plan, const std::vector<const Candidate*>& frontier, Style style) {
  std::string text =
      bold(fmt::format("Nothing else is faster with as few devices and as little memory ({} of {} candidates):",
                       frontier.size(), plan.candidates.size()),
           style) +
      "\n";
  std::vector<std::vector<std::string>> rows = {header()};
  int rank = 1;
  for (const Candidate* c : frontier) rows.push_back(row(std::to_string(rank++), *c));
  return text + columns(rows);
}

std::string rejection_table(const std::vector<Rejection>& rejections, bool all, Style style) {
  std::map<std::string, std::vector<const Rejection*>> by_code;
  for (const Rejection& r : rejections) by_code[r.finding.code].push_back(&r);
  std::string text = bold("Refused, by rule:", style) + "\n";
  for (const auto& [code, list] : by_code) {
    std::int64_t placements = 0;
    for (const Rejection* r : list) placements += r->placements;
    text += fmt::format("  {} ({} factorizations, {} placements)\n", bold(code, style), list.size(), placements);
    for (const Rejection* r : list) {
      text += fmt::format("    {}: {}\n", r->degrees.str(), r->finding.message);
      if (!r->finding.suggestion.empty()) text += dim(fmt::format("      {}\n", r->finding.suggestion), style);
      if (!all) break;
    }
  }
  return text;
}

std::string check_text(const CheckResult& result, Style style) {
  std::string text = bold(result.legal ? "legal" : "illegal", style);
  if (!result.mesh_from.empty()) text += fmt::format(" ({})", result.mesh_from);
  text += "\n";
  for (const Finding& f : result.findings) {
    text += fmt::format("  {} {}: {}\n", f.severity == Severity::kError ? "error" : "warning", bold(f.code, style),
                        f.message);
    if (!f.suggestion.empty()) text += dim(fmt::format("    fix: {}\n", f.suggestion), style);
  }
  if (!result.instead.empty()) text += fmt::format("  instead: {}\n", result.instead);
  if (result.legal && result.mesh)
    for (const Axis axis : {Axis::kTp, Axis::kUlysses, Axis::kRing, Axis::kCfg})
      if (result.mesh->degrees()[axis] > 1)
        text += fmt::format("  {:<8} groups {}\n", to_string(axis), groups_text(*result.mesh, axis));
  return text;
}

}  // namespace hpplan::tools
