#include "runtime/environment.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "planner/spec/error.h"

namespace hpplan::runtime {
namespace {

constexpr int kMost = 1 << 20;
constexpr int kDefaultPort = 29400;

struct Names {
  const char* launcher;
  const char *rank, *world, *local_rank, *local_world;
};
constexpr Names kLaunchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}};

std::optional<int> number(const char* name, int least) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  const std::string_view view = text;
  int value = 0;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  if (error != std::errc() || end != view.data() + view.size() || value < least || value > kMost)
    throw InputError({name}, "", concat("expected a whole number of at least ", least, ", got '", view.substr(0, 40), "'"));
  return value;
}

}  // namespace

std::optional<RankEnvironment> rank_environment() {
  for (const Names& names : kLaunchers) {
    const auto rank = number(names.rank, 0);
    const auto world = number(names.world, 1);
    if (!rank && !world) continue;
    if (!rank || !world)
      throw InputError({rank ? names.world : names.rank}, "",
                       concat("is not set, but ", rank ? names.rank : names.world, " is: a launcher sets both"));
    RankEnvironment e;
    e.launcher = std::getenv("HPRUN_PORT_FD") != nullptr ? "hprun" : names.launcher;
    e.rank = *rank;
    e.world = *world;
    if (e.rank >= e.world)
      throw InputError({names.rank}, "", concat("is ", e.rank, ", but there are ", e.world, " ranks (", names.world, ")"));
    e.local_rank = number(names.local_rank, 0).value_or(e.rank);
    e.local_world = number(names.local_world, 1).value_or(e.world);
    if (const char* address = std::getenv("MASTER_ADDR")) e.master_addr = address;
    e.master_port = number("MASTER_PORT", 1).value_or(e.launcher == "hprun" ? 0 : kDefaultPort);
    return e;
  }
  return std::nullopt;
}

}  // namespace hpplan::runtime
