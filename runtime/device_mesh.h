// DeviceMesh: a Mesh with this rank's place in it and one open Group for every axis that
// has more than one rank. Axes of one rank get no communicator. Opening is collective:
// every rank opens its groups in the order replica, cfg, ring, ulysses, tp, sequence,
// world, and leaves together.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "planner/spec/mesh.h"
#include "runtime/group.h"

namespace hpplan::runtime {

class DeviceMesh {
 public:
  // Throws CommError naming the axis whose group did not open within the timeout.
  DeviceMesh(Mesh mesh, int rank, const Store& store, const CommOptions& options);
  // One rank, nothing to connect to.
  static DeviceMesh single();

  const Mesh& mesh() const { return mesh_; }
  int rank() const { return rank_; }
  int size() const { return mesh_.size(); }
  int coordinate(Axis axis) const { return mesh_.coordinate(rank_, axis); }
  // The one rank that prints and writes: world rank 0, whatever its coordinates.
  bool main() const { return rank_ == 0; }
  at::Device device() const { return device_; }

  const Group& group(Axis axis) const;
  // The ranks that share one sequence: ring x ulysses, ring outermost. rank() is the part
  // of the sequence this rank holds.
  const Group& sequence() const { return sequence_; }
  // All ranks, on the host's network whatever the other groups use: for control, never
  // for layers.
  const Group& world() const { return world_; }

  Ledger& ledger() const { return *ledger_; }
  std::shared_ptr<Ledger> shared_ledger() const { return ledger_; }
  // "rank 5 (tp 1, ring 0, ulysses 2)"
  std::string describe() const;

 private:
  DeviceMesh(Mesh mesh, int rank);

  Mesh mesh_;
  int rank_ = 0;
  at::Device device_ = at::kCPU;
  std::shared_ptr<Ledger> ledger_;
  std::vector<Group> groups_;  // by axis
  Group sequence_, world_;
};

}  // namespace hpplan::runtime
