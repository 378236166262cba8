#include "planner/tune.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "planner/check.h"
#include "planner/search.h"
#include "planner/spec/plan_yaml.h"
#include "tests/planner/problems.h"

namespace hpplan {
namespace {

using testing::problem_named;

// Answers from a table of seconds by degrees; 0 stands for a crash.
class FakeMeasurer : public Measurer {
 public:
  std::function<double(const Plan&)> seconds;
  std::vector<std::string> ran;     // in order
  std::vector<std::size_t> starts;  // plans of each
  std::size_t stop_after = 1000;    // runs; then nothing is reported
  std::string runner = "fake 1";

  void measure(const std::vector<const Plan*>& plans, const MeasureRequest& request,
               const Done& done) override {
    starts.push_back(plans.size());
    for (std::size_t i = 0; i < plans.size(); ++i) {
      if (ran.size() >= stop_after) return;
      const double s = seconds(*plans[i]);
      ran.push_back(plans[i]->chosen.mesh.degrees().str());
      Measurement m;
      m.plan_hash = plans[i]->hash;
      if (s == 0) {
        m.error = "bad weather";
        done(i, m);
        return;
      }
      for (int k = 0; k < request.iterations; ++k)
        m.steps_s.push_back(s * (1 + 0.001 * k));
      m.step_median = Seconds(median(m.steps_s));
      m.iterations = request.iterations;
      done(i, m);
    }
  }
  std::string version() override { return runner; }
};

struct Tuned {
  Problem problem = problem_named("minimax-h3", "hgx-h200", "hprun");
  Plan searched = search();
  FakeMeasurer measurer;
  TuneOptions options;
  bool stop = false;

  Plan search() const {
    SearchOptions options;
    options.devices = 8;
    options.keep_all = true;
    return *make_plan(problem, options).plan;
  }
  TuneResult run(std::vector<Contender> list, Journal* journal = nullptr) {
    return tune(std::move(list), measurer, journal, options, {}, [&] { return stop; });
  }
};

std::vector<std::string> degrees(const std::vector<Contender>& list) {
  std::vector<std::string> names;
  for (const Contender& c : list) names.push_back(c.plan.chosen.mesh.degrees().str());
  return names;
}

TEST(Tune, ShortlistIsTheBestPredictedAndTheDefault) {
  const Tuned t;
  const auto list = shortlist(t.problem, t.searched, 3);
  ASSERT_GE(list.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(list[i].predicted_place, static_cast<int>(i) + 1);
    EXPECT_EQ(list[i].plan.chosen.mesh, t.searched.candidates[i].mesh);
    EXPECT_EQ(list[i].plan.hash, plan_hash(list[i].plan));
  }
  int baselines = 0;
  for (const Contender& c : list) baselines += c.baseline ? 1 : 0;
  EXPECT_EQ(baselines, 1);
}

// The default layout is in the engine's own rank order and legal by the engine's rules.
TEST(Tune, DefaultLayoutOfEveryEngine) {
  for (const char* engine : {"hprun", "diffusers", "sglang", "vllm-omni", "xdit",
                             "tensorrt-llm", "lightx2v", "cache-dit"})
    for (const char* model :
         {"minimax-h3", "wan2.1-14b", "wan2.1-1.3b", "hunyuanvideo"}) {
      const Problem problem = problem_named(model, "hgx-h200", engine);
      const auto own = default_layout(problem, 8);
      ASSERT_TRUE(own) << engine << " " << model;
      CheckRequest request;
      request.mesh = own->mesh;
      request.degrees = own->mesh.degrees();
      request.ring_method = own->ring_method;
      EXPECT_TRUE(check_layout(problem, request).legal) << engine << " " << model;
      EXPECT_EQ(own->mesh.size(), 8);
    }
  // 56 heads over 8: plain Ulysses. 12 heads do not divide by 8, and sglang does not pad.
  EXPECT_EQ(default_layout(problem_named("minimax-h3", "hgx-h200", "sglang"), 8)
                ->mesh.degrees()
                .str(),
            "ulysses8");
  EXPECT_EQ(default_layout(problem_named("wan2.1-1.3b", "hgx-h200", "sglang"), 8)
                ->mesh.degrees()
                .ulysses(),
            4);
}

TEST(Tune, ThereAndBackAgain) {
  Tuned t;
  t.options.rounds = 2;
  t.measurer.seconds = [](const Plan&) { return 1.0; };
  const auto list = shortlist(t.problem, t.searched, 3);
  std::vector<std::string> expected = degrees(list);
  const std::vector<std::string> there = expected;
  expected.insert(expected.end(), there.rbegin(), there.rend());
  const TuneResult result = t.run(list);
  EXPECT_EQ(t.measurer.ran, expected);
  EXPECT_EQ(t.measurer.starts, (std::vector<std::size_t>{list.size(), list.size()}));
  EXPECT_EQ(result.stopped, "rounds");
}

TEST(Tune, TheMeasuredFastestIsChosen) {
  Tuned t;
  const auto list = shortlist(t.problem, t.searched, 4);
  const std::string third = list[2].plan.hash;
  t.measurer.seconds = [&](const Plan& p) { return p.hash == third ? 0.5 : 0.6; };
  const TuneResult result = t.run(list);
  EXPECT_EQ(result.ranked.front().plan.hash, third);
  // Two runs of each separate them.
  EXPECT_EQ(result.stopped, "separated");
  EXPECT_EQ(t.measurer.ran.size(), 2 * list.size());
  EXPECT_EQ(result.ranked[1].state, ContenderState::kSlower);
  const auto plan = tuned_plan(t.searched, result);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan_hash(*plan), third);
  ASSERT_TRUE(plan->chosen.measured);
  EXPECT_EQ(plan->chosen.measured->steps_s.size(), 10U);
  EXPECT_NEAR(plan->chosen.measured->step_median.value, 0.501, 1e-9);
  EXPECT_EQ(plan->runners_up.size(), list.size() - 1);
  // What is written reads back, measured included.
  const Plan read = parse_plan(plan_to_yaml(*plan), "tuned.yaml");
  EXPECT_EQ(read.chosen.measured->steps_s, plan->chosen.measured->steps_s);
}

TEST(Tune, OneRunSeparatesNothing) {
  Tuned t;
  t.options.rounds = 1;
  const auto list = shortlist(t.problem, t.searched, 3);
  const std::string first = list[0].plan.hash;
  t.measurer.seconds = [&](const Plan& p) { return p.hash == first ? 0.1 : 10; };
  EXPECT_EQ(t.run(list).stopped, "rounds");
}

TEST(Tune, ACrashIsAFailedMeasurementAndTheRestGoesOn) {
  Tuned t;
  const auto list = shortlist(t.problem, t.searched, 4);
  const std::string second = list[1].plan.hash;
  t.measurer.seconds = [&](const Plan& p) { return p.hash == second ? 0 : 1; };
  t.options.rounds = 2;
  const TuneResult result = t.run(list);
  EXPECT_EQ(result.ranked.back().plan.hash, second);
  EXPECT_EQ(result.ranked.back().state, ContenderState::kFailed);
  EXPECT_EQ(result.ranked.back().runs.size(), 1U);  // not tried again
  for (std::size_t i = 0; i + 1 < result.ranked.size(); ++i)
    EXPECT_EQ(result.ranked[i].runs.size(), 2U);
  const auto plan = tuned_plan(t.searched, result);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->runners_up.back().measured->error, "bad weather");
}

TEST(Tune, AllFailedIsNoPlan) {
  Tuned t;
  t.measurer.seconds = [](const Plan&) { return 0.0; };
  EXPECT_FALSE(tuned_plan(t.searched, t.run(shortlist(t.problem, t.searched, 3))));
}

TEST(Tune, GoesOnFromItsJournal) {
  const auto path = std::filesystem::temp_directory_path() / "hpplan_tune_test.journal";
  std::filesystem::remove(path);
  Tuned t;
  t.options.rounds = 2;
  t.measurer.seconds = [](const Plan&) { return 1.0; };
  const auto list = shortlist(t.problem, t.searched, 3);
  const std::size_t all = 2 * list.size();
  {
    Journal journal(path.string());
    t.measurer.stop_after = all - 3;
    EXPECT_EQ(t.run(list, &journal).stopped, "budget");
  }
  const std::vector<std::string> before = t.measurer.ran;
  t.measurer.stop_after = 1000;
  {
    Journal journal(path.string());
    const TuneResult result = t.run(list, &journal);
    for (const Contender& c : result.ranked) EXPECT_EQ(c.runs.size(), 2U);
  }
  EXPECT_EQ(t.measurer.ran.size(), all);
  // Another version of the runner measures all of it again.
  t.measurer.runner = "fake 2";
  {
    Journal journal(path.string());
    t.run(list, &journal);
  }
  EXPECT_EQ(t.measurer.ran.size(), 2 * all);
  std::filesystem::remove(path);
}

TEST(Tune, StopsWhenAsked) {
  Tuned t;
  t.stop = true;
  t.measurer.seconds = [](const Plan&) { return 1.0; };
  const TuneResult result = t.run(shortlist(t.problem, t.searched, 3));
  EXPECT_EQ(result.stopped, "interrupted");
  EXPECT_TRUE(t.measurer.ran.empty());
}

TEST(Tune, NothingIsStartedWithoutBudget) {
  Tuned t;
  t.options.budget = Seconds(0);
  t.measurer.seconds = [](const Plan&) { return 1.0; };
  EXPECT_EQ(t.run(shortlist(t.problem, t.searched, 3)).stopped, "budget");
  EXPECT_TRUE(t.measurer.ran.empty());
}

}  // namespace
}  // namespace hpplan
