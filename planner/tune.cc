#include "planner/tune.h"

#include <algorithm>
#include <chrono>

#include "planner/spec/error.h"
#include "planner/spec/plan_yaml.h"

namespace hpplan {
namespace {

using Clock = std::chrono::steady_clock;

MedianInterval interval_of(const Contender& c, double confidence) {
  return median_interval(c.steps(), confidence);
}

bool in_the_race(const Contender& c) {
  return c.state == ContenderState::kWaiting || c.state == ContenderState::kMeasured;
}

void settle(Contender& c) {
  const bool failed = std::any_of(c.runs.begin(), c.runs.end(),
                                  [](const Measurement& m) { return !m.error.empty(); });
  c.state = failed           ? ContenderState::kFailed
            : c.runs.empty() ? ContenderState::kWaiting
                             : ContenderState::kMeasured;
}

// Marks what is slower beyond doubt. True when one is left and nothing waits.
bool separate(std::vector<Contender>& contenders, double confidence) {
  const Contender* best = nullptr;
  for (const Contender& c : contenders)
    if (c.state == ContenderState::kMeasured &&
        (best == nullptr || median(c.steps()) < median(best->steps())))
      best = &c;
  if (best == nullptr || best->runs.size() < 2) return false;
  const MedianInterval fastest = interval_of(*best, confidence);
  std::size_t racing = 0;
  for (Contender& c : contenders) {
    if (&c != best && c.state == ContenderState::kMeasured && c.runs.size() >= 2 &&
        interval_of(c, confidence).low > fastest.high)
      c.state = ContenderState::kSlower;
    racing += in_the_race(c) ? 1 : 0;
  }
  return racing == 1;
}

// The next runs of a round, cut into starts of one world size.
std::vector<std::vector<std::size_t>> starts_of(const std::vector<Contender>& contenders,
                                                std::size_t round) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < contenders.size(); ++i)
    if (in_the_race(contenders[i]) && contenders[i].runs.size() <= round)
      order.push_back(i);
  const auto size = [&](std::size_t i) { return contenders[i].plan.chosen.mesh.size(); };
  // Like sizes together, in the order they first come.
  std::vector<std::vector<std::size_t>> starts;
  for (const std::size_t i : order) {
    const auto same = std::find_if(starts.begin(), starts.end(), [&](const auto& start) {
      return size(start.front()) == size(i);
    });
    if (same == starts.end())
      starts.push_back({i});
    else
      same->push_back(i);
  }
  if (round % 2 == 1) {
    std::reverse(starts.begin(), starts.end());
    for (auto& start : starts) std::reverse(start.begin(), start.end());
  }
  return starts;
}

class Tuner {
 public:
  Tuner(std::vector<Contender> contenders, Measurer& measurer, Journal* journal,
        const TuneOptions& options,
        const std::function<void(const TuneProgress&)>& progress,
        const std::function<bool()>& stopped)
      : contenders_(std::move(contenders)),
        measurer_(measurer),
        journal_(journal),
        options_(options),
        progress_(progress),
        stopped_(stopped) {}

  TuneResult run() {
    recall();
    std::string why = "rounds";
    if (separate(contenders_, options_.confidence)) return rank("separated");
    for (std::size_t round = 0; round < static_cast<std::size_t>(options_.rounds);
         ++round) {
      for (const auto& start : starts_of(contenders_, round)) {
        why = measure(start);
        if (!why.empty()) return rank(why);
      }
      if (separate(contenders_, options_.confidence)) return rank("separated");
    }
    return rank("rounds");
  }

 private:
  Seconds elapsed() const {
    return Seconds(std::chrono::duration<double>(Clock::now() - begun_).count());
  }

  MeasurementKey key(const Contender& c) const {
    return measurement_key(c.plan, measurer_.version());
  }

  void recall() {
    if (journal_ == nullptr) return;
    for (Contender& c : contenders_) {
      c.runs = journal_->find(key(c));
      c.from_journal = static_cast<int>(c.runs.size());
      settle(c);
    }
  }

  // Runs these until each has its measurement or has failed. Returns why tuning ends, or
  // "".
  std::string measure(std::vector<std::size_t> waiting) {
    while (!waiting.empty()) {
      if (stopped_()) return "interrupted";
      const Seconds left = options_.budget - elapsed();
      // Of one run, start-up shared: what the last ones took.
      const double each = runs_ > 0 ? run_seconds_ / runs_ : 0;
      if (left.value <= 0 || (runs_ > 0 && each > left.value)) return "budget";
      std::vector<const Plan*> plans;
      for (const std::size_t i : waiting) {
        if (runs_ > 0 && each * static_cast<double>(plans.size() + 1) > left.value) break;
        plans.push_back(&contenders_[i].plan);
      }
      MeasureRequest request = options_.run;
      request.deadline = left;
      const Seconds start = elapsed();
      std::size_t done = 0;
      bool failed = false;
      measurer_.measure(plans, request, [&](std::size_t index, const Measurement& m) {
        Contender& c = contenders_[waiting[index]];
        if (journal_ != nullptr) journal_->append(key(c), m);
        c.runs.push_back(m);
        settle(c);
        ++done;
        failed = failed || !m.error.empty();
        note(c, start, done);
      });
      run_seconds_ += (elapsed() - start).value;
      runs_ += static_cast<int>(std::max<std::size_t>(done, 1));
      if (stopped_()) return "interrupted";
      if (done < plans.size() && !failed) return "budget";
      waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(done));
    }
    return "";
  }

  void note(const Contender& c, Seconds start, std::size_t done) {
    if (!progress_) return;
    TuneProgress p;
    p.contender = &c;
    p.done = ++finished_;
    p.elapsed = elapsed();
    int more = 0;
    for (const Contender& other : contenders_)
      if (in_the_race(other))
        more += std::max(0, options_.rounds - static_cast<int>(other.runs.size()));
    p.planned = finished_ + more;
    const double each = (run_seconds_ + (p.elapsed - start).value) /
                        static_cast<double>(static_cast<std::size_t>(runs_) + done);
    p.left = Seconds(
        std::clamp(each * more, 0.0, std::max(0.0, (options_.budget - p.elapsed).value)));
    progress_(p);
  }

  TuneResult rank(const std::string& stopped) {
    return {ranked(std::move(contenders_)), stopped};
  }

  std::vector<Contender> contenders_;
  Measurer& measurer_;
  Journal* journal_;
  const TuneOptions& options_;
  const std::function<void(const TuneProgress&)>& progress_;
  const std::function<bool()>& stopped_;
  const Clock::time_point begun_ = Clock::now();
  double run_seconds_ = 0;
  int runs_ = 0, finished_ = 0;
};

}  // namespace

std::vector<double> Contender::steps() const {
  std::vector<double> all;
  for (const Measurement& m : runs) {
    if (!m.error.empty()) continue;
    if (m.steps_s.empty())
      all.push_back(m.step_median.value);
    else
      all.insert(all.end(), m.steps_s.begin(), m.steps_s.end());
  }
  return all;
}

Measurement merged(const std::vector<Measurement>& runs) {
  HP_CHECK(!runs.empty(), "nothing to merge");
  for (const Measurement& m : runs)
    if (!m.error.empty()) return m;
  Measurement all = runs.back();
  Contender pooled{.plan = {.chosen = {.mesh = Mesh(Degrees{}, {}, {0}, {0})}}};
  pooled.runs = runs;
  all.steps_s = pooled.steps();
  all.iterations = static_cast<int>(all.steps_s.size());
  all.step_median = Seconds(median(all.steps_s));
  all.step_spread = Seconds(spread(all.steps_s));
  all.step_min = Seconds(*std::min_element(all.steps_s.begin(), all.steps_s.end()));
  all.step_max = Seconds(*std::max_element(all.steps_s.begin(), all.steps_s.end()));
  for (const Measurement& m : runs)
    all.peak_memory = std::max(all.peak_memory, m.peak_memory);
  return all;
}

std::vector<Contender> ranked(std::vector<Contender> contenders) {
  for (Contender& c : contenders)
    if (c.state != ContenderState::kSlower) settle(c);
  const auto group = [](const Contender& c) {
    return c.state == ContenderState::kFailed ? 1 : c.runs.empty() ? 2 : 0;
  };
  std::stable_sort(contenders.begin(), contenders.end(),
                   [&](const Contender& a, const Contender& b) {
                     if (group(a) != group(b)) return group(a) < group(b);
                     return group(a) == 0 && median(a.steps()) < median(b.steps());
                   });
  return contenders;
}

TuneResult tune(std::vector<Contender> contenders, Measurer& measurer, Journal* journal,
                const TuneOptions& options,
                const std::function<void(const TuneProgress&)>& progress,
                const std::function<bool()>& stopped) {
  HP_CHECK(!contenders.empty(), "nothing to tune");
  return Tuner(std::move(contenders), measurer, journal, options, progress, stopped)
      .run();
}

std::optional<Plan> tuned_plan(const Plan& searched, const TuneResult& result) {
  const auto measured = [](const Contender& c) {
    return !c.runs.empty() && c.state != ContenderState::kFailed;
  };
  if (result.ranked.empty() || !measured(result.ranked.front())) return std::nullopt;
  const auto candidate = [](const Contender& c) {
    Candidate with = c.plan.chosen;
    if (!c.runs.empty()) with.measured = merged(c.runs);
    return with;
  };
  Plan plan = searched;
  plan.chosen = candidate(result.ranked.front());
  plan.runners_up.clear();
  plan.candidates.clear();
  for (std::size_t i = 1; i < result.ranked.size(); ++i)
    plan.runners_up.push_back(candidate(result.ranked[i]));
  return plan;
}

}  // namespace hpplan
