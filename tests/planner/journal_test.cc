#include "planner/journal.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "planner/spec/error.h"

namespace hpplan {
namespace {

namespace fs = std::filesystem;

class JournalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() /
              (std::string("hpplan_journal_") +
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    path_ = (folder_ / "j").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string text() const {
    std::ifstream in(path_, std::ios::binary);
    std::stringstream all;
    all << in.rdbuf();
    return all.str();
  }
  void write(const std::string& content) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << content;
  }
  std::string refusal() const {
    try {
      const Journal journal(path_);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  }

  fs::path folder_;
  std::string path_;
};

MeasurementKey key(const std::string& layout, const std::string& runner = "hprun 1") {
  return {layout, {{"model", "sha256:m"}, {"topology", "sha256:t"}, {"runner", runner}}};
}

Measurement step(double seconds) {
  Measurement m;
  m.step_median = m.step_min = m.step_max = Seconds(seconds);
  m.iterations = 2;
  m.steps_s = {seconds, seconds};
  m.plan_hash = "sha256:p";
  return m;
}

TEST_F(JournalTest, KeepsWhatWasAppended) {
  {
    Journal journal(path_);
    journal.append(key("a"), step(1.5));
    journal.append(key("b"), step(2));
    journal.append(key("a"), step(1.25));
    Measurement failed;
    failed.error = "rank 1 exited with 3: \"bad\" \\ weather";
    journal.append(key("c"), failed);
  }
  const Journal journal(path_);
  const auto a = journal.find(key("a"));
  ASSERT_EQ(a.size(), 2U);
  EXPECT_EQ(a[0].step_median, Seconds(1.5));
  EXPECT_EQ(a[1].steps_s, (std::vector<double>{1.25, 1.25}));
  EXPECT_EQ(journal.find(key("b")).size(), 1U);
  EXPECT_EQ(journal.find(key("c")).at(0).error,
            "rank 1 exited with 3: \"bad\" \\ weather");
  EXPECT_TRUE(journal.find(key("d")).empty());
}

// A kill may cut the last line anywhere (every byte is tried near the ends of lines): the
// lines before it stay, and so does what is appended after it.
TEST_F(JournalTest, TornAtEveryByte) {
  {
    Journal journal(path_);
    journal.append(key("a"), step(1));
  }
  const std::string first = text();
  {
    Journal journal(path_);
    journal.append(key("b"), step(2));
  }
  const std::string both = text();
  const auto near_an_end = [&](std::size_t at) {
    return at + 3 > both.size() || (at + 3 > first.size() && at < first.size() + 25) ||
           at < 25;
  };
  for (std::size_t cut = 1; cut < both.size(); cut += near_an_end(cut) ? 1 : 11) {
    write(both.substr(0, cut));
    {
      Journal journal(path_);
      EXPECT_EQ(journal.find(key("a")).size(), cut + 1 >= first.size() ? 1U : 0U) << cut;
      EXPECT_EQ(journal.find(key("b")).size(), cut + 1 == both.size() ? 1U : 0U) << cut;
      journal.append(key("c"), step(3));
    }
    const Journal again(path_);
    EXPECT_EQ(again.find(key("a")).size(), cut + 1 >= first.size() ? 1U : 0U) << cut;
    EXPECT_EQ(again.find(key("c")).size(), 1U) << cut;
  }
}

TEST_F(JournalTest, OtherInputsExpire) {
  Journal journal(path_);
  journal.append(key("a", "hprun 1"), step(1));
  journal.append(key("a", "hprun 2"), step(2));
  EXPECT_EQ(journal.find(key("a", "hprun 2")).size(), 1U);
  EXPECT_EQ(journal.expired(key("a", "hprun 2")),
            (std::map<std::string, int>{{"runner", 1}}));
  MeasurementKey machine = key("a", "hprun 2");
  machine.inputs["topology"] = "sha256:u";
  EXPECT_TRUE(journal.find(machine).empty());
  EXPECT_EQ(journal.expired(machine).count("topology"), 1U);
  EXPECT_TRUE(journal.expired(key("b")).empty());
}

TEST_F(JournalTest, RefusesAFileOfAnotherKind) {
  write("hpplan: 1\nmodel: {name: x}\n");
  EXPECT_NE(refusal().find("is not a journal"), std::string::npos) << refusal();
  EXPECT_EQ(text(), "hpplan: 1\nmodel: {name: x}\n");
  path_ = folder_.string();
  EXPECT_NE(refusal(), "");
}

TEST_F(JournalTest, IsOneProcessAtATime) {
  const Journal journal(path_);
  EXPECT_NE(refusal().find("another hpplan"), std::string::npos) << refusal();
}

}  // namespace
}  // namespace hpplan
