#include "planner/validate.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "planner/match.h"
#include "planner/row_prediction.h"
#include "planner/spec/error.h"

namespace hpplan {
namespace {

struct Scored {
  std::string subgroup;
  int devices = 0;
  double measured = 0, predicted = 0;
  bool per_step = false;
};

std::optional<double> mean(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

std::optional<double> median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

// What an engine holds that no formula tells, read from the first row of a group whose
// memory was measured; nullopt when none was.
std::optional<Bytes> held_beside(const std::vector<MatchedRow>& rows) {
  for (const MatchedRow& row : rows)
    if (row.memory && !row.op) return *row.memory - memory_of_row(row).peak();
  return std::nullopt;
}

bool predicted_to_fail(const MatchedRow& row, const std::optional<Bytes>& beside) {
  if (row.op) return false;
  const MemoryEstimate memory = memory_of_row(row);
  return memory.peak() + beside.value_or(Bytes(0)) > memory.limit;
}

struct SetScore {
  double regret = 1, best_of_3 = 1;
  std::optional<double> tau;
  double pairs = 0, right = 0;
};

SetScore score_set(std::vector<Scored> rows) {
  SetScore score;
  std::sort(rows.begin(), rows.end(),
            [](const Scored& a, const Scored& b) { return a.predicted < b.predicted; });
  double best = rows[0].measured, first_three = rows[0].measured;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    best = std::min(best, rows[i].measured);
    if (i < 3) first_three = std::min(first_three, rows[i].measured);
  }
  score.regret = rows[0].measured / best;
  score.best_of_3 = first_three / best;
  double concordant = 0, counted = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = i + 1; j < rows.size(); ++j) {
      const double apart = std::abs(rows[i].measured / rows[j].measured - 1);
      if (apart <= 0.01) continue;
      counted += 1;
      const bool tie = rows[i].predicted == rows[j].predicted;
      const bool right =
          rows[i].measured < rows[j].measured;  // rows are in predicted order
      concordant += tie ? 0 : right ? 1 : -1;
      if (apart > 0.05) {
        score.pairs += 1;
        score.right += !tie && right ? 1 : 0;
      }
    }
  }
  if (counted > 0) score.tau = concordant / counted;
  return score;
}

// Mean relative error once one row has set the level, over every choice of that row.
std::optional<double> scaled_error(const std::vector<Scored>& rows) {
  std::vector<double> errors;
  for (std::size_t anchor = 0; anchor < rows.size(); ++anchor) {
    const double factor = rows[anchor].measured / rows[anchor].predicted;
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (i != anchor)
        errors.push_back(std::abs(rows[i].predicted * factor / rows[i].measured - 1));
  }
  return mean(errors);
}

}  // namespace

Validation validate(const Catalog& catalog, const std::vector<MeasuredGroup>& groups,
                    const Ablation& ablation) {
  Validation result;
  Matcher matcher(catalog);
  std::vector<double> regrets, best_of_3, taus, mapes, levels, inside;
  double pairs = 0, right = 0;
  struct {
    std::vector<double> regrets, taus, mapes;
    double pairs = 0, right = 0;
  } calls;
  std::map<std::string, std::vector<std::pair<std::size_t, double>>>
      log_factors;  // engine and device -> group, factor
  for (const MeasuredGroup& group : groups) {
    GroupScore g;
    g.id = group.id;
    g.use = group.use;
    std::vector<Scored> scored;
    std::map<std::string, int> reasons;
    std::vector<MatchedRow> rows;
    std::vector<const MeasuredRow*> of;
    for (const MeasuredRow& row : group.rows) {
      auto matched = matcher.match(group, row, ablation);
      if (const auto* none = std::get_if<Unmatched>(&matched)) {
        ++reasons[none->reason];
        continue;
      }
      rows.push_back(std::get<MatchedRow>(std::move(matched)));
      of.push_back(&row);
    }
    const std::optional<Bytes> beside = held_beside(rows);
    g.memory_given = beside.has_value();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const MatchedRow& m = rows[i];
      const MeasuredRow& row = *of[i];
      g.engine = m.problem->engine.name + "/" + m.problem->engine.stack.name;
      g.device = m.problem->device.name;
      g.calls = g.calls || m.op.has_value();
      const bool fails = predicted_to_fail(m, beside);
      if (m.failed) {
        ++g.failed;
        g.failed_predicted += fails ? 1 : 0;
        continue;
      }
      ++g.running;
      g.false_alarms += fails ? 1 : 0;
      const Prediction p = predict_row(m);
      if (m.per_step && p.high.value > 0)
        inside.push_back(p.low.value <= m.seconds && m.seconds <= p.high.value ? 1 : 0);
      Scored s{row.subgroup, row.devices, m.seconds, p.step.value, m.per_step};
      g.detail.push_back(
          {concat(row.subgroup, row.subgroup.empty() ? "" : ": ", m.degrees.str(),
                  m.method == RingMethod::kAllGather && m.degrees.ring() > 1 ? " (gather)"
                                                                             : "",
                  ", ", row.devices, " devices"),
           s.measured, s.predicted, p.low.value, p.high.value, s.per_step});
      scored.push_back(std::move(s));
    }
    for (const auto& [reason, count] : reasons)
      result.skipped.push_back({group.id, reason, count});
    if (scored.empty() && g.failed == 0) continue;
    g.rows = static_cast<int>(scored.size());

    std::map<std::pair<std::string, int>, std::vector<Scored>> sets;
    std::map<std::string, std::vector<Scored>> subgroups;
    std::vector<double> group_levels;
    double log_factor = 0, factors = 0;
    for (const Scored& s : scored) {
      sets[{s.subgroup, s.devices}].push_back(s);
      subgroups[s.subgroup].push_back(s);
      if (!s.per_step) continue;
      group_levels.push_back(std::abs(s.predicted / s.measured - 1));
      log_factor += std::log(s.measured / s.predicted);
      factors += 1;
    }
    std::vector<double> group_regret, group_best, group_tau, group_mape;
    for (const auto& [key, rows] : sets) {
      if (rows.size() < 2) continue;
      const SetScore score = score_set(rows);
      group_regret.push_back(score.regret);
      group_best.push_back(score.best_of_3);
      if (score.tau) group_tau.push_back(*score.tau);
      group_mape.push_back(*scaled_error(rows));
      g.pairs += score.pairs;
      g.pairs_right += score.right;
    }
    if (group_mape.empty())
      for (const auto& [subgroup, rows] : subgroups)
        if (const auto error = scaled_error(rows)) group_mape.push_back(*error);
    g.sets = static_cast<int>(group_regret.size());
    g.regret = mean(group_regret);
    g.regret_best_of_3 = mean(group_best);
    g.tau = mean(group_tau);
    g.mape = mean(group_mape);
    g.level = mean(group_levels);
    if (g.calls) {
      calls.regrets.insert(calls.regrets.end(), group_regret.begin(), group_regret.end());
      calls.taus.insert(calls.taus.end(), group_tau.begin(), group_tau.end());
      if (g.mape) calls.mapes.push_back(*g.mape);
      calls.pairs += g.pairs;
      calls.right += g.pairs_right;
      result.groups.push_back(std::move(g));
      continue;
    }
    if (factors > 0) {
      log_factors[g.engine + "|" + g.device].emplace_back(result.groups.size(),
                                                          log_factor / factors);
      levels.push_back(*g.level);
    }
    regrets.insert(regrets.end(), group_regret.begin(), group_regret.end());
    best_of_3.insert(best_of_3.end(), group_best.begin(), group_best.end());
    taus.insert(taus.end(), group_tau.begin(), group_tau.end());
    if (g.mape) mapes.push_back(*g.mape);
    pairs += g.pairs;
    right += g.pairs_right;
    result.sets += g.sets;
    result.failed += g.failed;
    result.failed_predicted += g.failed_predicted;
    result.false_alarms += g.false_alarms;
    result.running += g.running;
    if (g.memory_given) {
      result.given.failed += g.failed;
      result.given.failed_predicted += g.failed_predicted;
      result.given.false_alarms += g.false_alarms;
      result.given.running += g.running;
    }
    result.groups.push_back(std::move(g));
  }

  // One factor by engine, stack and device, fitted on the other groups that ran it; 1
  // where there are none.
  std::vector<double> left_out;
  for (const auto& [key, list] : log_factors) {
    for (const auto& [index, own] : list) {
      double sum = 0, n = 0;
      for (const auto& [other, factor] : list)
        if (other != index) {
          sum += factor;
          n += 1;
        }
      const double factor = n > 0 ? std::exp(sum / n) : 1;
      GroupScore& g = result.groups[index];
      std::vector<double> errors;
      for (const GroupScore::Row& row : g.detail)
        if (row.per_step)
          errors.push_back(std::abs(row.predicted * factor / row.measured - 1));
      g.level_left_out = mean(errors);
      if (g.level_left_out) left_out.push_back(*g.level_left_out);
    }
  }
  result.calls.sets = static_cast<int>(calls.regrets.size());
  result.calls.regret_mean = mean(calls.regrets);
  result.calls.tau_mean = mean(calls.taus);
  result.calls.mape_median = median(calls.mapes);
  if (calls.pairs > 0) result.calls.pairs_right = calls.right / calls.pairs;
  result.regret_mean = mean(regrets);
  result.regret_best_of_3_mean = mean(best_of_3);
  result.tau_mean = mean(taus);
  result.mape_median = median(mapes);
  result.level_median = median(levels);
  result.level_left_out_median = median(left_out);
  result.in_band = mean(inside);
  if (pairs > 0) result.pairs_right = right / pairs;
  return result;
}

std::vector<std::pair<std::string, Validation>> ablate(
    const Catalog& catalog, const std::vector<MeasuredGroup>& groups) {
  std::vector<std::pair<std::string, Validation>> all;
  all.emplace_back("full model", validate(catalog, groups));
  const std::pair<const char*, bool Ablation::*> parts[] = {
      {"no contention", &Ablation::contention},
      {"no head padding", &Ablation::head_padding},
      {"no host dispatch", &Ablation::host_dispatch},
      {"no ring merge", &Ablation::ring_merge},
      {"no elementwise", &Ablation::elementwise}};
  for (const auto& [name, part] : parts) {
    Ablation ablation;
    ablation.*part = false;
    all.emplace_back(name, validate(catalog, groups, ablation));
  }
  return all;
}

}  // namespace hpplan
