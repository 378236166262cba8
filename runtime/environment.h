// Who this process is in a run: read from what the launcher left in the environment. Torch-free.
#pragma once

#include <optional>
#include <string>

namespace hpplan::runtime {

struct RankEnvironment {
  int rank = 0;
  int world = 1;
  int local_rank = 0;
  int local_world = 1;
  std::string master_addr = "127.0.0.1";
  int master_port = 0;   // 0: agreed over a pipe with the local launcher
  std::string launcher;  // "torchrun", "srun", "mpirun", "hprun"
};

// RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT (torchrun and hprun's own launcher); SLURM_PROCID,
// SLURM_NTASKS, SLURM_LOCALID; OMPI_COMM_WORLD_* and PMI_*. srun and mpirun leave no meeting place: MASTER_ADDR and
// MASTER_PORT must be set, but on one host 127.0.0.1 is assumed. nullopt: nothing is set, no launcher started this
// process. Throws InputError for half of a set, or values that are no ranks.
std::optional<RankEnvironment> rank_environment();

}  // namespace hpplan::runtime
