// Golden trios: NAME.args (one hpplan call, arguments a line or blank-separated), NAME.out (its standard output) and
// NAME.err (its standard error, absent when nothing is said there); the first line of NAME.args may be "# exit N".
// HPPLAN_UPDATE=1 rewrites them; read the difference before committing it.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

void write(const fs::path& path, const std::string& text) {
  if (text.empty()) {
    fs::remove(path);
    return;
  }
  std::ofstream(path, std::ios::binary) << text;
}

std::vector<fs::path> cases() {
  std::vector<fs::path> all;
  for (const auto& entry : fs::directory_iterator(std::string(HPPLAN_SOURCE_DIR) + "/tests/golden"))
    if (entry.path().extension() == ".args") all.push_back(entry.path());
  std::sort(all.begin(), all.end());
  return all;
}

class Golden : public testing::TestWithParam<fs::path> {};

TEST_P(Golden, SaysWhatItSaid) {
  const fs::path args = GetParam();
  std::istringstream lines(read(args));
  std::string command, line;
  int expected = 0;
  while (std::getline(lines, line)) {
    if (line.rfind("# exit ", 0) == 0) expected = std::stoi(line.substr(7));
    else if (line.empty() || line[0] != '#') command += " " + line;
  }
  const fs::path folder = fs::temp_directory_path() / ("hpplan_golden_" + args.stem().string());
  fs::create_directories(folder);
  const std::string out = (folder / "out").string(), err = (folder / "err").string();
  const std::string call = "cd " HPPLAN_SOURCE_DIR "/tests/golden && " HPPLAN_BIN_DIR "/hpplan" + command + " >" + out +
                           " 2>" + err + " </dev/null";
  const int status = std::system(call.c_str());
  ASSERT_TRUE(WIFEXITED(status)) << command;
  const std::string said = read(out), complained = read(err);
  const fs::path golden_out = fs::path(args).replace_extension(".out"), golden_err = fs::path(args).replace_extension(".err");
  if (std::getenv("HPPLAN_UPDATE") != nullptr) {
    write(golden_out, said);
    write(golden_err, complained);
  }
  EXPECT_EQ(WEXITSTATUS(status), expected) << command << "\n" << complained;
  EXPECT_EQ(said, read(golden_out)) << command;
  EXPECT_EQ(complained, read(golden_err)) << command;
  fs::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Trios, Golden, testing::ValuesIn(cases()), [](const auto& info) {
  std::string name = info.param.stem().string();
  std::replace_if(name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
});

}  // namespace
