#include "planner/launch_measurer.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "planner/search.h"
#include "planner/spec/error.h"
#include "planner/tune.h"
#include "tests/planner/problems.h"

namespace hpplan {
namespace {

const std::string kFake = HPPLAN_SOURCE_DIR "/tests/support/fake_hprun.sh";

// Layouts of the fake: the pattern that finds each in its plan.
const char* const kTp4 = "tp: {degree: 4";
const char* const kUlysses4 = "ulysses: {degree: 4";

class LaunchMeasurerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    log_ = std::filesystem::temp_directory_path() /
           (std::string("hpplan_launch_") +
            ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove(log_);
    setenv("FAKE_LOG", log_.c_str(), 1);
    SearchOptions options;
    options.devices = 4;
    options.keep_all = true;
    const Problem problem = testing::problem_named("minimax-h3", "hgx-h200", "hprun");
    for (const auto& c : shortlist(problem, *make_plan(problem, options).plan, 100)) {
      const Degrees& d = c.plan.chosen.mesh.degrees();
      if (d.tp() == 4 || d.ulysses() == 4) plans_.push_back(c.plan);
    }
    ASSERT_EQ(plans_.size(), 2U);
    if (plans_[0].chosen.mesh.degrees().tp() != 4) std::swap(plans_[0], plans_[1]);
  }
  void TearDown() override {
    for (const char* name :
         {"FAKE_LOG", "FAKE_CRASH", "FAKE_HANG", "FAKE_OTHER", "FAKE_TORN", "FAKE_SLEEP"})
      unsetenv(name);
    std::filesystem::remove(log_);
  }

  // Measurements by index; those not reported have neither time nor error.
  std::vector<Measurement> measure(const MeasureRequest& request) {
    LaunchMeasurer measurer({kFake}, stop_);
    std::vector<Measurement> got(plans_.size());
    measurer.measure({&plans_[0], &plans_[1]}, request,
                     [&](std::size_t i, const Measurement& m) {
                       got[i] = m;
                       if (stop_after_first_) stop_ = 1;
                     });
    return got;
  }

  std::vector<Plan> plans_;  // tp4, ulysses4
  std::filesystem::path log_;
  volatile std::sig_atomic_t stop_ = 0;
  bool stop_after_first_ = false;
};

bool reported(const Measurement& m) {
  return m.step_median.value > 0 || !m.error.empty();
}

TEST_F(LaunchMeasurerTest, MeasuresSeveralPlansInOneStart) {
  MeasureRequest request;
  request.iterations = 7;
  const auto got = measure(request);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(got[i].error, "");
    EXPECT_EQ(got[i].plan_hash, plans_[i].hash);
    EXPECT_EQ(got[i].steps_s.size(), 7U);
    EXPECT_NEAR(got[i].step_median / plans_[i].chosen.predicted.step, 1, 1e-3);
    EXPECT_EQ(got[i].file, "");
  }
  std::ifstream in(log_);
  int starts = 0;
  for (std::string line; std::getline(in, line);)
    starts += line.rfind("start", 0) == 0 ? 1 : 0;
  EXPECT_EQ(starts, 1);
}

TEST_F(LaunchMeasurerTest, ACrashIsAMeasurementWithItsLastWords) {
  setenv("FAKE_CRASH", kUlysses4, 1);
  const auto got = measure({});
  EXPECT_EQ(got[0].error, "");
  EXPECT_GT(got[0].step_median.value, 0);
  EXPECT_EQ(got[1].error, "exit code 3: rank 1: bad weather");
  EXPECT_EQ(got[1].plan_hash, plans_[1].hash);
}

TEST_F(LaunchMeasurerTest, APlanAfterTheCrashIsNotReported) {
  setenv("FAKE_CRASH", kTp4, 1);
  const auto got = measure({});
  EXPECT_NE(got[0].error, "");
  EXPECT_FALSE(reported(got[1]));
}

TEST_F(LaunchMeasurerTest, AHangEndsInTimeWithAllItStarted) {
  setenv("FAKE_HANG", kUlysses4, 1);
  MeasureRequest request;
  request.timeout = Seconds(1);
  const auto begun = std::chrono::steady_clock::now();
  const auto got = measure(request);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(20));
  EXPECT_EQ(got[0].error, "");
  EXPECT_EQ(got[1].error, "no result within 1 s");
  std::ifstream in(log_);
  int child = 0;
  for (std::string word; in >> word;)
    if (word == "child") in >> child;
  ASSERT_GT(child, 0);
  // Gone, or a zombie that nobody waits for.
  std::string state;
  std::ifstream stat(concat("/proc/", child, "/stat"));
  if (stat) stat >> state >> state >> state;
  EXPECT_TRUE(state.empty() || state == "Z" || state == "X") << state;
}

TEST_F(LaunchMeasurerTest, AtTheDeadlineARunSaysNothing) {
  setenv("FAKE_HANG", kTp4, 1);
  MeasureRequest request;
  request.deadline = Seconds(0.5);
  const auto got = measure(request);
  EXPECT_FALSE(reported(got[0]));
  EXPECT_FALSE(reported(got[1]));
}

TEST_F(LaunchMeasurerTest, AStopSaysNothingMore) {
  setenv("FAKE_HANG", kUlysses4, 1);
  stop_after_first_ = true;
  const auto got = measure({});
  EXPECT_TRUE(reported(got[0]));
  EXPECT_FALSE(reported(got[1]));
}

TEST_F(LaunchMeasurerTest, AMeasurementOfAnotherPlanIsNone) {
  setenv("FAKE_OTHER", kTp4, 1);
  EXPECT_NE(measure({})[0].error.find("another plan"), std::string::npos);
}

TEST_F(LaunchMeasurerTest, HalfAFileIsNone) {
  setenv("FAKE_TORN", kTp4, 1);
  EXPECT_NE(measure({})[0].error.find("unreadable measurement"), std::string::npos);
}

TEST_F(LaunchMeasurerTest, SaysWhatRunsPlans) {
  EXPECT_EQ(LaunchMeasurer({kFake}, stop_).version(), "fake 1.0");
  EXPECT_EQ(find_runner(kFake + " --threads 1"),
            (std::vector<std::string>{kFake, "--threads", "1"}));
  EXPECT_THROW(find_runner("no-such-runner"), InputError);
  EXPECT_EQ(LaunchMeasurer::last_words("one\n\ntwo\x01\n  \n"), "one | two?");
}

}  // namespace
}  // namespace hpplan
