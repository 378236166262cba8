// One forward pass on all ranks of a plan's mesh, ranks as threads, held against a
// reference.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/models/model.h"
#include "tests/runtime/h3_reference.h"

namespace hpplan::runtime {

inline constexpr double kTolerance = 1e-5;

// One rank's forward pass and what it was made of.
struct RankResult {
  TensorMap out;  // gathered
  LocalShape shape;
  std::map<std::string, std::int64_t> expected, counted;  // collectives of the step
  std::int64_t weight_bytes = 0;
  std::uint64_t bytes_read = 0;
};

std::vector<RankResult> run_forward(const H3Reference& reference, const Plan& plan);

// On every rank: each stream within kTolerance on its own (BL-193: an error over all rows
// would hide a few audio rows), the collectives that were issued are those announced, and
// the rows and heads at hand are the plan's share (BL-094: parity cannot show that
// sharding is off).
void expect_parity(const H3Reference& reference, const Plan& plan);

// tp fastest, then ulysses, then ring.
Mesh mesh_with(int tp, int ring, int ulysses);

std::string describe(const Plan& plan);

}  // namespace hpplan::runtime
