#include "planner/validate_report.h"

#include <fmt/format.h>

#include "planner/spec/document.h"
#include "planner/spec/quantity.h"

namespace hpplan {
namespace {

using Number = std::optional<double>;

std::string cell(const Number& value, const char* form = "{:.3f}") {
  return value ? fmt::format(fmt::runtime(form), *value) : "-";
}
std::string percent(const Number& value) {
  return value ? fmt::format("{:.1f} %", 100 * *value) : "-";
}

Document number(const Number& value) {
  return value ? Document(std::stod(format_rounded(*value, 6))) : Document(nullptr);
}

Document overall(const Validation& v) {
  Document d;
  d["regret_mean"] = number(v.regret_mean);
  d["tau_mean"] = number(v.tau_mean);
  d["mape_median"] = number(v.mape_median);
  d["regret_best_of_3_mean"] = number(v.regret_best_of_3_mean);
  d["pairs_over_5_percent_right"] = number(v.pairs_right);
  d["level_median"] = number(v.level_median);
  d["level_left_out_median"] = number(v.level_left_out_median);
  d["in_band"] = number(v.in_band);
  d["sets"] = v.sets;
  d["out_of_memory_rows"] = v.failed;
  d["out_of_memory_predicted"] = v.failed_predicted;
  d["running_rows"] = v.running;
  d["false_alarms"] = v.false_alarms;
  if (v.calls.sets > 0)
    d["attention_calls"] = {{"sets", v.calls.sets},
                            {"regret_mean", number(v.calls.regret_mean)},
                            {"tau_mean", number(v.calls.tau_mean)},
                            {"mape_median", number(v.calls.mape_median)},
                            {"pairs_over_5_percent_right", number(v.calls.pairs_right)}};
  d["memory_given"] = {{"out_of_memory_rows", v.given.failed},
                       {"out_of_memory_predicted", v.given.failed_predicted},
                       {"running_rows", v.given.running},
                       {"false_alarms", v.given.false_alarms}};
  return d;
}

}  // namespace

std::string validation_text(const Validation& v, bool detail) {
  std::string text =
      fmt::format("{:<44} {:>5} {:>5} {:>7} {:>7} {:>8} {:>8} {:>9}  {}\n", "group",
                  "rows", "sets", "regret", "tau", "MAPE", "level", "left out", "OOM");
  for (const GroupScore& g : v.groups) {
    text += fmt::format("{:<44} {:>5} {:>5} {:>7} {:>7} {:>8} {:>8} {:>9}",
                        g.id.substr(0, 44), g.rows, g.sets, cell(g.regret),
                        cell(g.tau, "{:.2f}"), percent(g.mape), percent(g.level),
                        percent(g.level_left_out));
    if (g.failed > 0) text += fmt::format("  {} of {}", g.failed_predicted, g.failed);
    if (g.false_alarms > 0) text += fmt::format("  {} false alarms", g.false_alarms);
    text += "\n";
    if (detail)
      for (const GroupScore::Row& row : g.detail)
        text += fmt::format("    {:<58} {:>10.4g} {:>10.4g}  {:.2f}\n",
                            row.text.substr(0, 58), row.measured, row.predicted,
                            row.predicted / row.measured);
  }
  text += fmt::format(
      "\nregret {} mean over {} sets ({} when the best three predictions are measured), "
      "tau {}, pairs over 5 % apart in "
      "the right order {}\n",
      cell(v.regret_mean, "{:.4f}"), v.sets, cell(v.regret_best_of_3_mean, "{:.4f}"),
      cell(v.tau_mean, "{:.3f}"), percent(v.pairs_right));
  text += fmt::format(
      "MAPE after one row has set the level {} (median of groups); level with nothing "
      "fitted {}, with a factor from the "
      "other groups of the same software and device {}\n",
      percent(v.mape_median), percent(v.level_median), percent(v.level_left_out_median));
  text += fmt::format("{} of the rows with seconds a step lie in their band\n",
                      percent(v.in_band));
  text += fmt::format(
      "out of memory, where one row of the group gave what the engine holds beside the "
      "formula: {} of {} rows predicted, "
      "{} false alarms in {} running rows\n  by the formula alone: {} of {}, {} false "
      "alarms in {}\n",
      v.given.failed_predicted, v.given.failed, v.given.false_alarms, v.given.running,
      v.failed_predicted - v.given.failed_predicted, v.failed - v.given.failed,
      v.false_alarms - v.given.false_alarms, v.running - v.given.running);
  if (v.calls.sets > 0)
    text += fmt::format(
        "attention calls alone, in none of the figures above: regret {} over {} sets, "
        "tau {}, pairs right {}, MAPE {}\n",
        cell(v.calls.regret_mean, "{:.4f}"), v.calls.sets,
        cell(v.calls.tau_mean, "{:.3f}"), percent(v.calls.pairs_right),
        percent(v.calls.mape_median));
  if (!v.skipped.empty()) {
    int rows = 0;
    for (const Skipped& s : v.skipped) rows += s.rows;
    text += fmt::format("\n{} rows are not judged:\n", rows);
    for (const Skipped& s : v.skipped)
      text += fmt::format("  {:<44} {:>4}  {}\n", s.id.substr(0, 44), s.rows, s.reason);
  }
  return text;
}

std::string ablation_text(const std::vector<std::pair<std::string, Validation>>& all) {
  std::string text = fmt::format("{:<20} {:>8} {:>7} {:>12} {:>8} {:>8}\n", "change",
                                 "regret", "tau", "pairs right", "MAPE", "level");
  for (const auto& [name, v] : all)
    text += fmt::format("{:<20} {:>8} {:>7} {:>12} {:>8} {:>8}\n", name,
                        cell(v.regret_mean, "{:.4f}"), cell(v.tau_mean, "{:.3f}"),
                        percent(v.pairs_right), percent(v.mape_median),
                        percent(v.level_median));
  return text;
}

std::string validation_json(
    const Validation& v,
    const std::vector<std::pair<std::string, Validation>>& ablations) {
  Document d;
  d["groups"] = Document::array();
  for (const GroupScore& g : v.groups) {
    Document row;
    row["id"] = g.id;
    row["regret"] = number(g.regret);
    row["tau"] = number(g.tau);
    row["mape"] = number(g.mape);
    row["level"] = number(g.level);
    row["level_left_out"] = number(g.level_left_out);
    row["rows"] = g.rows;
    row["sets"] = g.sets;
    row["engine"] = g.engine;
    row["device"] = g.device;
    row["out_of_memory_rows"] = g.failed;
    row["out_of_memory_predicted"] = g.failed_predicted;
    row["false_alarms"] = g.false_alarms;
    d["groups"].push_back(std::move(row));
  }
  d["overall"] = overall(v);
  for (const auto& [name, validation] : ablations)
    d["ablations"][name] = overall(validation);
  d["skipped"] = Document::array();
  for (const Skipped& s : v.skipped)
    d["skipped"].push_back({{"id", s.id}, {"rows", s.rows}, {"reason", s.reason}});
  return to_json(d);
}

}  // namespace hpplan
