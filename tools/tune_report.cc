#include "tools/tune_report.h"

#include <fmt/format.h>

#include <algorithm>

namespace hpplan::tools {
namespace {

std::string layout_text(const Candidate& c) {
  std::string text = c.mesh.degrees().str();
  if (c.mesh.degrees().ring() > 1 && c.ring_method == RingMethod::kAllGather)
    text += " gather";
  return text;
}

bool measured(const Contender& c) {
  return c.state == ContenderState::kMeasured || c.state == ContenderState::kSlower;
}

std::string error_of(const Contender& c) {
  for (const Measurement& m : c.runs)
    if (!m.error.empty()) return m.error;
  return "";
}

std::string percent(double ratio) { return fmt::format("{:.1f} %", 100 * (ratio - 1)); }

}  // namespace

std::string progress_line(const TuneProgress& p) {
  const Contender& c = *p.contender;
  const Measurement& m = c.runs.back();
  const std::string what =
      m.error.empty()
          ? fmt::format("{} +- {}", time_text(m.step_median), time_text(m.step_spread))
          : "failed: " + m.error;
  return fmt::format(
      "[{}/{}] measured {}, run {}: {} ({:.0f} s gone, at most {:.0f} s left)", p.done,
      p.planned, layout_text(c.plan.chosen), c.runs.size(), what, p.elapsed.value,
      p.left.value);
}

std::string tune_table(const TuneResult& result, double confidence, Style style) {
  std::vector<std::vector<std::string>> rows = {
      {"#", "devices", "median step", fmt::format("{:.0f} % interval", 100 * confidence),
       "runs", "predicted", "predicted #", "layout"}};
  int place = 1;
  for (const Contender& c : result.ranked) {
    std::string layout = layout_text(c.plan.chosen);
    if (!c.plan.chosen.placement.empty()) layout += "  " + c.plan.chosen.placement;
    if (c.baseline) layout += "  (default layout)";
    if (c.state == ContenderState::kSlower) layout += "  out: slower beyond doubt";
    if (c.state == ContenderState::kFailed) layout += "  failed: " + error_of(c);
    if (c.state == ContenderState::kWaiting) layout += "  not reached";
    std::string time = "-", interval = "-";
    if (measured(c)) {
      const MedianInterval i = median_interval(c.steps(), confidence);
      time = time_text(Seconds(median(c.steps())));
      interval = time_text(Seconds(i.low)) + " - " + time_text(Seconds(i.high));
    }
    rows.push_back(
        {measured(c) ? std::to_string(place++) : "-",
         std::to_string(c.plan.chosen.mesh.size()), time, interval,
         std::to_string(c.runs.size()), time_text(c.plan.chosen.predicted.step),
         c.predicted_place > 0 ? std::to_string(c.predicted_place) : "-", layout});
  }
  std::string text = bold("Measured", style) + "\n" + columns(rows) + "\n";
  for (const std::string& line : tune_notes(result, confidence)) text += line + "\n";
  return text;
}

std::vector<std::string> tune_notes(const TuneResult& result, double confidence) {
  std::vector<std::string> lines;
  if (result.ranked.empty() || !measured(result.ranked.front())) return lines;
  const Contender& best = result.ranked.front();
  const double fastest = median(best.steps());
  std::string first =
      fmt::format("measured fastest: {}, {} a step, median of {} steps in {} runs",
                  layout_text(best.plan.chosen), time_text(Seconds(fastest)),
                  best.steps().size(), best.runs.size());
  std::string alike;
  const double high = median_interval(best.steps(), confidence).high;
  for (const Contender& c : result.ranked)
    if (&c != &best && measured(c) && median_interval(c.steps(), confidence).low <= high)
      alike += (alike.empty() ? "" : ", ") + layout_text(c.plan.chosen);
  if (!alike.empty()) first += "; within the noise of it: " + alike;
  lines.push_back(first);
  for (const Contender& c : result.ranked) {
    if (&c == &best || !measured(c)) continue;
    const double ratio = median(c.steps()) / fastest;
    if (c.predicted_place == 1)
      lines.push_back(fmt::format("the model's first choice, {}, is {} slower",
                                  layout_text(c.plan.chosen), percent(ratio)));
    if (c.baseline)
      lines.push_back(fmt::format("the default layout, {}, is {} slower",
                                  layout_text(c.plan.chosen), percent(ratio)));
  }
  for (const Contender& c : result.ranked)
    if (c.state == ContenderState::kFailed)
      lines.push_back(
          fmt::format("{} failed: {}", layout_text(c.plan.chosen), error_of(c)));
  if (best.runs.size() == 1)
    lines.emplace_back(
        "one run each: drift of the machine is not averaged out; a longer --budget is");
  lines.push_back("measuring stopped: " + result.stopped);
  return lines;
}

}  // namespace hpplan::tools
