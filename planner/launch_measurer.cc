#include "planner/launch_measurer.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "planner/spec/error.h"
#include "planner/spec/plan_yaml.h"

namespace hpplan {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr useconds_t kLook = 5000;  // microseconds between two looks at the child
constexpr double kGrace = 3;        // seconds from SIGTERM to SIGKILL

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool executable(const std::string& path) {
  return !fs::is_directory(path) && access(path.c_str(), X_OK) == 0;
}

std::string on_path(const std::string& name) {
  if (name.find('/') != std::string::npos) return executable(name) ? name : "";
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (!folder.empty() && executable(concat(folder, "/", name))) return concat(folder, "/", name);
  return "";
}

// The words of a flag's command, the first as a path that can be started.
std::vector<std::string> words_of(const char* flag, const std::string& asked) {
  std::istringstream in(asked);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  const std::string program = words.empty() ? "" : on_path(words[0]);
  if (program.empty())
    throw InputError(
        {flag}, "",
        concat("no program '", words.empty() ? "" : words[0], "' can be started"));
  words[0] = program;
  return words;
}

// Starts words in a process group of its own, output to `log`, nothing to read.
pid_t start(const std::vector<std::string>& words, const std::string& log) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0)
    throw InputError(concat("cannot start ", words[0], ": ", std::strerror(errno)));
  if (pid > 0) {
    setpgid(pid, pid);  // here too: whoever comes first
    return pid;
  }
  setpgid(0, 0);
  // Without its tuner a measurement is of no use.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  const int in = open("/dev/null", O_RDONLY);
  if (out < 0 || in < 0) _exit(127);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  execv(argv[0], argv.data());
  _exit(127);
}

// A child and the process group it leads; whatever is left of the group goes with it.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { end(); }

  bool running() {
    if (ended_) return false;
    const pid_t got = waitpid(pid_, &status_, WNOHANG);
    if (got == 0 || (got < 0 && errno == EINTR)) return true;
    ended_ = true;
    kill(-pid_, SIGKILL);
    return false;
  }

  // Asks, waits, and insists.
  void end() {
    if (!running()) return;
    kill(-pid_, SIGTERM);
    const auto asked = Clock::now();
    while (running()) {
      if (seconds_since(asked) > kGrace) kill(-pid_, SIGKILL);
      usleep(kLook);
    }
  }

  // "" when it left with 0.
  std::string trouble() const {
    if (WIFSIGNALED(status_))
      return concat("killed by signal ", WTERMSIG(status_), " (",
                    strsignal(WTERMSIG(status_)), ")");
    return WEXITSTATUS(status_) == 0 ? "" : concat("exit code ", WEXITSTATUS(status_));
  }

 private:
  pid_t pid_;
  int status_ = 0;
  bool ended_ = false;
};

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

Measurement failed(const std::string& plan_hash, std::string error) {
  Measurement m;
  m.error = std::move(error);
  m.plan_hash = plan_hash;
  return m;
}

}  // namespace

std::vector<std::string> find_runner(const std::string& asked) {
  if (asked.empty()) {
    std::error_code error;
    const fs::path self = fs::read_symlink("/proc/self/exe", error);
    const std::string beside = (self.parent_path() / "hprun").string();
    if (!error && executable(beside)) return {beside};
    const std::string found = on_path("hprun");
    if (!found.empty()) return {found};
    throw InputError(
        {"--runner"}, "",
        "hprun is neither beside hpplan nor on PATH: build it (tools/dev build), "
        "or name what runs plans");
  }
  return words_of("--runner", asked);
}

std::vector<std::string> find_launcher(const std::string& asked) {
  return asked.empty() ? std::vector<std::string>{} : words_of("--launcher", asked);
}

LaunchMeasurer::LaunchMeasurer(std::vector<std::string> runner,
                               const volatile std::sig_atomic_t& stop,
                               std::vector<std::string> launcher)
    : runner_(std::move(runner)), launcher_(std::move(launcher)), stop_(stop) {
  std::string name = (fs::temp_directory_path() / "hpplan-measure-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr)
    throw InputError({name}, "", concat("cannot be made: ", std::strerror(errno)));
  folder_ = name;
}

LaunchMeasurer::~LaunchMeasurer() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::string LaunchMeasurer::last_words(const std::string& log) {
  constexpr std::size_t kLines = 3, kMost = 600;
  std::vector<std::string> lines;
  std::istringstream in(log);
  for (std::string line; std::getline(in, line);)
    if (line.find_first_not_of(" \t\r") != std::string::npos) lines.push_back(line);
  std::string text;
  for (std::size_t i = lines.size() > kLines ? lines.size() - kLines : 0;
       i < lines.size(); ++i)
    text += (text.empty() ? "" : " | ") + lines[i];
  // What a child says may be anything; the text goes into plan files.
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f)
      c = '?';
  if (text.size() > kMost) text.replace(0, text.size() - kMost, "...");
  return text;
}

std::string LaunchMeasurer::version() {
  if (!version_.empty()) return version_;
  std::vector<std::string> words = runner_;
  words.emplace_back("--version");
  const std::string log = file("version");
  {
    Child child(start(words, log));
    const auto begun = Clock::now();
    while (child.running() && seconds_since(begun) < 60 && stop_ == 0) usleep(kLook);
    child.end();
    if (!child.trouble().empty() && stop_ == 0)
      throw InputError({"--runner"}, "",
                       concat(runner_[0], " --version: ", child.trouble(), ": ",
                              last_words(text_of(log))));
  }
  version_ = last_words(text_of(log));
  // Ranks on other hosts, or bound in another way, are another machine.
  for (const std::string& word : launcher_)
    version_ += (&word == &launcher_[0] ? " by " : " ") + word;
  return version_;
}

void LaunchMeasurer::measure(const std::vector<const Plan*>& plans,
                             const MeasureRequest& request, const Done& done) {
  std::vector<std::string> paths, hashes;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    paths.push_back(file(concat("plan", i, ".yaml")));
    write_file(paths.back(), plan_to_yaml(*plans[i]));
    hashes.push_back(plans[i]->hash);
  }
  measure_files(paths, hashes, plans.front()->chosen.mesh.size(), request, done);
}

void LaunchMeasurer::measure_files(const std::vector<std::string>& plans,
                                   const std::vector<std::string>& hashes, int ranks,
                                   const MeasureRequest& request, const Done& done) {
  std::vector<std::string> words, files;
  for (std::string word : launcher_) {
    const std::string mark = "{ranks}";
    if (const auto at = word.find(mark); at != std::string::npos)
      word.replace(at, mark.size(), std::to_string(ranks));
    words.push_back(std::move(word));
  }
  words.insert(words.end(), runner_.begin(), runner_.end());
  for (std::size_t i = 0; i < plans.size(); ++i) {
    files.push_back(file(concat("measurement", i, ".yaml")));
    std::error_code ignored;
    fs::remove(files.back(), ignored);
    words.push_back(plans[i]);
  }
  const auto flag = [&](const char* name, const std::string& value) {
    words.emplace_back(name);
    words.push_back(value);
  };
  if (launcher_.empty()) flag("--nproc", std::to_string(ranks));
  // A rank that waits for another gives up first, so that the run itself says who hung.
  flag("--timeout",
       concat(std::max(1, static_cast<int>(request.timeout.value / 2)), "s"));
  flag("--warmup", std::to_string(request.warmup));
  flag("--iterations", std::to_string(request.iterations));
  for (const std::string& path : files) flag("--measure", path);

  const std::string log = file("log");
  const auto begun = Clock::now();
  Child child(start(words, log));
  std::size_t next = 0;
  auto last = begun;  // when the plan that runs now began
  // A measurement file is renamed into place when it is whole.
  const auto collect = [&] {
    for (; next < plans.size() && fs::exists(files[next]); ++next, last = Clock::now()) {
      Measurement m;
      try {
        m = read_measurement(files[next]);
        if (m.error.empty() && m.plan_hash != hashes[next])
          m = failed(hashes[next],
                     "the runner measured another plan (its plan_hash differs)");
      } catch (const InputError& e) {
        m = failed(hashes[next], concat("unreadable measurement: ", e.what()));
      }
      m.file.clear();  // a temporary name
      done(next, m);
    }
  };
  bool hung = false;
  while (child.running()) {
    collect();
    if (stop_ != 0) return;
    if (request.deadline.value > 0 && seconds_since(begun) > request.deadline.value) {
      child.end();
      collect();
      return;
    }
    hung = seconds_since(last) > request.timeout.value;
    if (hung) break;
    usleep(kLook);
  }
  child.end();
  collect();
  if (next == plans.size() || stop_ != 0) return;
  const std::string said = last_words(text_of(log));
  std::string why =
      hung ? concat("no result within ", request.timeout.value, " s") : child.trouble();
  if (why.empty()) why = "the runner left without a measurement";
  done(next, failed(hashes[next], said.empty() ? why : concat(why, ": ", said)));
}

}  // namespace hpplan
