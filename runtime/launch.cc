#include "runtime/launch.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "planner/spec/error.h"

namespace hpplan::runtime {
namespace {

using Clock = std::chrono::steady_clock;

volatile sig_atomic_t stop_signal = 0;
void on_stop(int signal) { stop_signal = signal; }

struct Child {
  pid_t pid = 0;
  int err = -1;         // its stderr, read here line by line
  int port_in = -1;     // written: the port rank 0 chose
  std::string line;     // begun, not ended
  bool ended = false;
  int status = 0;
};

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw InputError(concat("cannot make a pipe: ", std::strerror(errno)));
    read = ends[0];
    write = ends[1];
  }
};

std::string how(int status) {
  if (WIFSIGNALED(status)) return concat("was killed by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
  return concat("exited with ", WEXITSTATUS(status));
}

Child start(const LaunchOptions& o, int rank, int port_out, std::vector<int>& to_close) {
  Child child;
  const Pipe err, port;
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) throw InputError(concat("cannot start rank ", rank, ": ", std::strerror(errno)));
  if (pid == 0) {
    // A parent that is gone already will not send the signal.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    signal(SIGINT, SIG_IGN);  // the parent decides
    dup2(err.write, STDERR_FILENO);
    const int in = dup(port.read);
    const auto set = [](const char* name, const std::string& value) { setenv(name, value.c_str(), 1); };
    set("RANK", std::to_string(rank));
    set("WORLD_SIZE", std::to_string(o.ranks));
    set("LOCAL_RANK", std::to_string(rank));
    set("LOCAL_WORLD_SIZE", std::to_string(o.ranks));
    set("MASTER_ADDR", "127.0.0.1");
    if (o.port > 0) set("MASTER_PORT", std::to_string(o.port));
    else unsetenv("MASTER_PORT");
    set("HPRUN_PORT_FD", std::to_string(rank == 0 ? dup(port_out) : in));
    std::vector<char*> argv;
    for (const std::string& word : o.command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    execv("/proc/self/exe", argv.data());
    _exit(127);
  }
  child.pid = pid;
  child.err = err.read;
  child.port_in = port.write;
  close(err.write);
  close(port.read);
  to_close.push_back(port.write);
  return child;
}

// Whole lines go to stderr with the rank before them.
void drain(Child& child, int rank, bool all) {
  char buffer[4096];
  for (;;) {
    pollfd ready{child.err, POLLIN, 0};
    if (child.err < 0 || poll(&ready, 1, 0) <= 0) break;
    const ssize_t n = read(child.err, buffer, sizeof buffer);
    if (n <= 0) {
      close(child.err);
      child.err = -1;
      break;
    }
    child.line.append(buffer, static_cast<std::size_t>(n));
  }
  std::size_t end;
  while ((end = child.line.find('\n')) != std::string::npos) {
    std::fprintf(stderr, "[%d] %s\n", rank, child.line.substr(0, end).c_str());
    child.line.erase(0, end + 1);
  }
  if (all && !child.line.empty()) std::fprintf(stderr, "[%d] %s\n", rank, child.line.c_str());
}

}  // namespace

int launch_local(const LaunchOptions& o) {
  struct sigaction action {};
  action.sa_handler = on_stop;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);

  std::vector<int> to_close;
  const Pipe chosen;  // rank 0 writes the port it got
  std::vector<Child> children;
  for (int rank = 0; rank < o.ranks; ++rank) children.push_back(start(o, rank, chosen.write, to_close));
  close(chosen.write);

  bool port_told = false;
  int first_failure = -1;
  Clock::time_point deadline{};
  const auto end_all = [&](int signal) {
    for (const Child& child : children)
      if (!child.ended) kill(child.pid, signal);
  };
  for (std::size_t left = children.size(); left > 0;) {
    std::vector<pollfd> ready;
    for (const Child& child : children)
      if (child.err >= 0) ready.push_back({child.err, POLLIN, 0});
    if (!port_told) ready.push_back({chosen.read, POLLIN, 0});
    poll(ready.data(), ready.size(), 50);
    if (!port_told && (ready.back().revents & (POLLIN | POLLHUP))) {
      char text[16] = {};
      const ssize_t n = read(chosen.read, text, sizeof text - 1);
      if (n > 0)
        for (std::size_t rank = 1; rank < children.size(); ++rank)
          if (write(children[rank].port_in, text, static_cast<std::size_t>(n)) < 0) break;
      port_told = true;
    }
    for (std::size_t rank = 0; rank < children.size(); ++rank) {
      Child& child = children[rank];
      drain(child, static_cast<int>(rank), false);
      if (child.ended || waitpid(child.pid, &child.status, WNOHANG) != child.pid) continue;
      child.ended = true;
      --left;
      drain(child, static_cast<int>(rank), true);
      if (child.status != 0 && first_failure < 0 && stop_signal == 0) {
        first_failure = static_cast<int>(rank);
        std::fprintf(stderr, "hprun: rank %d %s; ending the others\n", first_failure, how(child.status).c_str());
        end_all(SIGTERM);
        end_all(SIGCONT);  // a stopped rank takes the signal only when it goes on
        deadline = Clock::now() + o.timeout;
      }
    }
    if (stop_signal != 0 && deadline == Clock::time_point{}) {
      end_all(SIGTERM);
      end_all(SIGCONT);
      deadline = Clock::now() + std::chrono::seconds(2);
    }
    if (deadline != Clock::time_point{} && Clock::now() > deadline) end_all(SIGKILL);
  }
  for (const int file : to_close) close(file);
  close(chosen.read);
  if (stop_signal != 0) return 128 + stop_signal;
  if (first_failure < 0) return 0;
  const int status = children[static_cast<std::size_t>(first_failure)].status;
  return WIFEXITED(status) ? std::max(1, WEXITSTATUS(status)) : 1;
}

}  // namespace hpplan::runtime
