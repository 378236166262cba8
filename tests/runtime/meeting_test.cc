// What ranks check before they run, and how they part.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "planner/spec/error.h"
#include "runtime/accelerators.h"
#include "runtime/handshake.h"
#include "runtime/watchdog.h"
#include "tests/support/run_ranks.h"

namespace hpplan::runtime {
namespace {

using namespace std::chrono_literals;

std::vector<std::string> heard(const std::vector<std::string>& devices) {
  Plan plan{.chosen = {.mesh = Mesh::from_order(Degrees::make(static_cast<int>(devices.size()), 1, 1), {Axis::kTp})}};
  plan.hash = "sha256:0";
  std::vector<std::string> all(devices.size());
  run_threads(static_cast<int>(devices.size()), [&](int rank, const Store& store) {
    try {
      shake_hands(store, plan, rank, "test", devices[static_cast<std::size_t>(rank)], 10s);
    } catch (const InputError& e) {
      all[static_cast<std::size_t>(rank)] = e.what();
    }
  });
  return all;
}

// Eight processes must be on eight devices; all on the first one is an error that all report.
TEST(Handshake, BL178TwoRanksOnOneDeviceAreNamed) {
  for (const std::string& said : heard({"cuda:0", "cuda:1", "cuda:0"}))
    EXPECT_NE(said.find("ranks 0 and 2 both compute on cuda:0 of "), std::string::npos) << said;
  for (const std::string& said : heard({"cuda:0", "cuda:1", "cuda:2"})) EXPECT_EQ(said, "");
  for (const std::string& said : heard({"", "", ""})) EXPECT_EQ(said, "") << "ranks on the CPU share it";
}

// A launcher that shows every process one device: it is number 0 in each, and each is another one of the host.
TEST(Devices, BL165OneVisibleDeviceAProcess) {
  std::vector<std::string> names;
  for (int rank = 0; rank < 8; ++rank) {
    const std::string visible = std::to_string(rank);
    EXPECT_EQ(device_of(rank, 8, 1, visible.c_str()), 0);
    names.push_back(device_name(0, visible.c_str()));
  }
  EXPECT_EQ(names[0], "cuda:0");
  EXPECT_EQ(names[5], "cuda:5");
  for (const std::string& said : heard(names)) EXPECT_EQ(said, "");
  // All processes were shown the same one: that is found.
  EXPECT_NE(heard({device_name(0, "3"), device_name(0, "3")})[1].find("both compute on cuda:3"), std::string::npos);
}

TEST(Devices, ByRankWhereThereAreEnoughAndTheCpuElsewhere) {
  EXPECT_EQ(device_of(3, 8, 8, nullptr), 3);
  EXPECT_EQ(device_name(3, nullptr), "cuda:3");
  EXPECT_EQ(device_name(1, "4,6"), "cuda:6");
  EXPECT_EQ(device_of(3, 8, 4, nullptr), -1);
  EXPECT_EQ(device_of(1, 2, 1, nullptr), -1);
  EXPECT_EQ(device_of(0, 1, 0, nullptr), -1);
  EXPECT_EQ(device_name(-1, nullptr), "");
}

// A control connection of its own: a long wait in the store does not make this rank look silent.
TEST(Watchdog, AWaitInTheStoreIsNoSilence) {
  // In processes of their own: a watchdog that finds silence ends its process.
  int port_of[2];
  ASSERT_EQ(pipe(port_of), 0);
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) {
      int port = 0;
      if (rank == 1 && read(port_of[0], &port, sizeof port) != sizeof port) _exit(9);
      const Store store = Store::tcp("127.0.0.1", port, rank == 0, 20s);
      port = store.port();
      if (rank == 0 && write(port_of[1], &port, sizeof port) != sizeof port) _exit(9);
      {
        const Watchdog watchdog(store.with_own_connection(), rank, 2, 1s, [] { return std::string("waiting"); });
        if (rank == 0) std::this_thread::sleep_for(3s);
        store.set("here/" + std::to_string(rank), "yes");
        store.get("here/" + std::to_string(1 - rank), 20s);  // rank 1 stands in it for three timeouts
      }
      if (rank == 0) std::this_thread::sleep_for(1s);  // the store is here
      _exit(0);
    }
    ranks.push_back(pid);
  }
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    int status = 0;
    waitpid(ranks[rank], &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "rank " << rank << ": status " << status;
  }
}

}  // namespace
}  // namespace hpplan::runtime
