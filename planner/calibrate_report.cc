// The calibration as text for people: what was fitted, how well, what was left out.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/calibrate.h"
#include "planner/spec/quantity.h"

namespace hpplan {
namespace {

std::string seconds(double s) {
  return s < 0.9995 ? format_rounded(s * 1e3, 4) + " ms" : format_rounded(s, 4) + " s";
}

std::string percent(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }

double mean_error(const std::vector<RunReport>& runs, double RunReport::*predicted) {
  double sum = 0;
  for (const RunReport& run : runs) sum += std::abs(run.*predicted / run.measured - 1);
  return sum / static_cast<double>(runs.size());
}

}  // namespace

std::string calibration_text(const Calibration& c) {
  std::string text;
  if (!c.curves.empty()) {
    text += fmt::format(
        "links of {}\n  {:<14} {:>5} {:>10} {:>12} {:>8} {:>7} {:>8} {:>8}  {}\n",
        c.fabric.name, "collective", "ranks", "a", "bandwidth", "c", "points", "error",
        "worst", "profile before");
    for (const CurveReport& r : c.curves)
      text += fmt::format(
          "  {:<14} {:>5} {:>10} {:>12} {:>8} {:>7} {:>8} {:>8}  {}\n",
          to_string(r.fit.curve.op), r.fit.curve.n,
          format_rounded(r.fit.curve.a.value * 1e6, 3) + "us",
          format_rounded(r.fit.curve.bandwidth.value / 1e9, 3) + "GB/s",
          format_rounded(r.fit.curve.c * 1e9, 3) + "ns", r.fit.points,
          percent(r.fit.mean_error), percent(r.fit.worst_error),
          r.had_before ? "off by " + percent(r.error_before) : std::string("had none"));
    for (const CurveReport& r : c.curves)
      text +=
          fmt::format("    {} over {}: {}; {}; worst at {}\n", to_string(r.fit.curve.op),
                      r.fit.curve.n, r.from, r.how, format(r.fit.worst_size));
  }
  if (!c.kernels.empty()) {
    text += fmt::format(
        "kernels of {}, mean error over points\n  {:<28} {:>7} {:>8} {:>8} {:>8}\n",
        c.device.name, "", "points", "before", "after", "worst");
    for (const KernelReport& r : c.kernels)
      text += fmt::format("  {:<28} {:>7} {:>8} {:>8} {:>8}\n", r.what, r.points,
                          percent(r.before), percent(r.after), percent(r.worst));
  }
  if (!c.runs.empty()) {
    text += fmt::format(
        "software on {}: compute takes {} times what the profile says, attention {} "
        "times\n  {:>10} {:>10} {:>10}  {}\n",
        c.device.name, format_rounded(c.compute_factor, 3),
        format_rounded(c.attention_factor, 3), "measured", "before", "after", "run");
    for (const RunReport& r : c.runs)
      text += fmt::format("  {:>10} {:>10} {:>10}  {} ({})\n", seconds(r.measured),
                          seconds(r.before), seconds(r.after), r.what, r.from);
    text += fmt::format("  mean error {} before, {} after\n",
                        percent(mean_error(c.runs, &RunReport::before)),
                        percent(mean_error(c.runs, &RunReport::after)));
  }
  for (const std::string& note : c.notes) text += "note: " + note + "\n";
  return text;
}

}  // namespace hpplan
