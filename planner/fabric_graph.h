// The questions about a graph that need a graph library, behind plain containers: cycles through all vertices,
// widest routes, islands. Vertices are 0..n-1. Nobody but fabric.cc includes this; fabric_graph.cc is the
// only file with Boost.Graph.
#pragma once

#include <optional>
#include <utility>
#include <vector>

namespace hpplan::graph {

struct Edge {
  int a = 0;
  int b = 0;
  double width = 0;  // capacity of one direction
};

// A cycle that visits every vertex once over the given edges. Refused at once when some vertex has fewer than
// two edges, the graph is not connected, one vertex cuts it, or it has two colours in unequal number; then a search with a budget of calls, since a
// "no" can take for ever. nullopt: there is none, or the budget ran out (then *exhausted is set).
std::optional<std::vector<int>> hamiltonian_cycle(int vertices, const std::vector<Edge>& edges, bool* exhausted);

// Routes from every vertex to every other: the widest, and of those the one with fewest edges, as indices of
// `edges`; empty where there is none.
class Routes {
 public:
  Routes() = default;
  Routes(int vertices, const std::vector<Edge>& edges);
  const std::vector<int>& between(int a, int b) const { return routes_[static_cast<std::size_t>(a) * n_ + b]; }

 private:
  std::size_t n_ = 0;
  std::vector<std::vector<int>> routes_;
};

// Connected components, each ascending, ordered by their lowest vertex.
std::vector<std::vector<int>> islands(int vertices, const std::vector<Edge>& edges);

}  // namespace hpplan::graph
