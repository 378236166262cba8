// How long a whole call of hpplan takes, process start included. Run:
// build/bin/hpplan_bench
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <sstream>
#include <string>
#include <vector>

extern char** environ;

namespace {

int call(const std::string& arguments) {
  std::vector<std::string> words = {HPPLAN_BIN_DIR "/hpplan"};
  std::istringstream in(arguments);
  for (std::string word; in >> word;) words.push_back(word);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int stream : {1, 2})
    posix_spawn_file_actions_addopen(&actions, stream, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  int status = -1;
  if (posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ) == 0)
    waitpid(pid, &status, 0);
  posix_spawn_file_actions_destroy(&actions);
  return status;
}

void BM_Call(benchmark::State& state, const std::string& arguments) {
  for (auto _ : state)
    if (call(arguments) != 0) {
      state.SkipWithError(("hpplan " + arguments + " failed").c_str());
      return;
    }
}

#define HPPLAN_CALL(name, arguments)          \
  BENCHMARK_CAPTURE(BM_Call, name, arguments) \
      ->Name("hpplan/" #name)                 \
      ->Unit(benchmark::kMillisecond)         \
      ->UseRealTime()

HPPLAN_CALL(version, "--version");
HPPLAN_CALL(hgx_h200, "--model minimax-h3 --topology hgx-h200 --format yaml");
HPPLAN_CALL(
    trn2_64,
    "--model minimax-h3 --topology trn2.48xl --fabric-rules compiled --devices 64 "
    "--format yaml");
HPPLAN_CALL(
    trn2_every_count,
    "--model minimax-h3 --topology trn2.48xl --fabric-rules compiled --format yaml");
HPPLAN_CALL(trn2_eager, "--model minimax-h3 --topology trn2.48xl --format yaml");
HPPLAN_CALL(
    hgx_h200_8_nodes,
    "--model wan2.1-14b --topology hgx-h200 --nodes 8 --devices 64 --format yaml");
HPPLAN_CALL(explain, "--model minimax-h3 --topology hgx-h200 --explain --format json");

}  // namespace

BENCHMARK_MAIN();
