// Reads a rank grid somebody wrote down (`hpplan check --ranks FILE`). What is no list of
// ranks is an InputError with its place; whether the ranks make a mesh is judged by
// planner/check.h.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "planner/spec/mesh.h"

namespace hpplan {

// YAML or JSON, in one of two forms:
//   a nested list of ranks over replica, cfg, ring, ulysses, tp, in this order; axes of
//   degree 1 may be left out.
//     tp 2 x ulysses 2:  [[0, 1], [2, 3]]          (inner lists are tp groups)
//   or the groups of every axis above degree 1, each ordered by coordinate:
//     {tp: [[0, 1], [2, 3]], ulysses: [[0, 2], [1, 3]]}
// Rank r runs on device r.
struct RankFile {
  std::string file;
  std::vector<int> shape;  // of the nested list; empty: groups are given
  std::vector<int> ranks;  // row-major over shape
  std::map<Axis, std::vector<std::vector<int>>> groups;
};

RankFile parse_ranks(const std::string& text, const std::string& file);
RankFile read_ranks(const std::string& path);

}  // namespace hpplan
