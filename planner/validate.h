// Validation: the whole planner over published measurements. What it gives is data;
// validate_report.h prints it.
//
// A set is the layouts of one group and subgroup at one device count. Per set of two or
// more:
//   regret  measured time of the layout predicted fastest / of the fastest, at least 1
//   tau     Kendall's rank correlation over pairs whose measured times differ by more
//   than 1 % mape    mean relative error after one row has set the level, averaged over
//   which row it is; where a group has no
//           set, of its subgroups, that is of its speed-up curves
// Per row with seconds a step: level, |predicted / measured - 1| with nothing fitted.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/problem.h"
#include "planner/spec/catalog.h"
#include "planner/spec/measurements_yaml.h"

namespace hpplan {

struct GroupScore {
  std::string id, use, engine, device;
  int rows = 0, sets = 0;
  std::optional<double> regret, regret_best_of_3, tau, mape, level;
  std::optional<double> level_left_out;  // after a factor fitted on the other groups of
                                         // the same engine and device
  double pairs = 0, pairs_right = 0;     // pairs over 5 % apart
  // Rows that ran out of memory and that ran, and what was said of them. memory_given:
  // what the engine holds beside the formula was read from one measured row of the group.
  int failed = 0, failed_predicted = 0, false_alarms = 0, running = 0;
  bool memory_given = false;
  bool calls = false;  // attention calls alone, not denoise steps
  struct Row {
    std::string text;  // "tp2 x ulysses4, 8 devices"
    double measured = 0, predicted = 0, low = 0, high = 0;
    bool per_step = false;
  };
  std::vector<Row> detail;
};

struct Skipped {
  std::string id, reason;
  int rows = 0;
};

struct Validation {
  std::vector<GroupScore> groups;  // those with at least one row, in file order
  std::vector<Skipped> skipped;    // rows that could not be mapped, by reason
  // Means over sets or groups; nullopt when there is none.
  std::optional<double> regret_mean, regret_best_of_3_mean, tau_mean, mape_median,
      level_median, level_left_out_median, pairs_right;
  std::optional<double> in_band;  // share of rows with seconds a step inside their band
  int sets = 0, failed = 0, failed_predicted = 0, false_alarms = 0, running = 0;
  struct {
    int failed = 0, failed_predicted = 0, false_alarms = 0, running = 0;
  } given;  // of these, the groups with a measured row of memory
  // Groups of attention calls alone: judged beside the others, in none of the figures
  // above.
  struct {
    int sets = 0;
    std::optional<double> regret_mean, tau_mean, mape_median, pairs_right;
  } calls;
};

Validation validate(const Catalog& catalog, const std::vector<MeasuredGroup>& groups,
                    const Ablation& ablation = {});

// The full model and each part of it switched off, by name.
std::vector<std::pair<std::string, Validation>> ablate(
    const Catalog& catalog, const std::vector<MeasuredGroup>& groups);

}  // namespace hpplan
