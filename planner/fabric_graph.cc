#include "planner/fabric_graph.h"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/biconnected_components.hpp>
#include <boost/graph/bipartite.hpp>
#include <boost/graph/connected_components.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <boost/graph/vf2_sub_graph_iso.hpp>
#include <functional>
#include <limits>

namespace hpplan::graph {
namespace {

using Width = boost::property<boost::edge_weight_t, double>;
using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS,
                                    boost::no_property, Width>;

// A cycle of 64 vertices on a torus takes a few thousand calls; a hopeless search stops
// after about a tenth of a second.
constexpr long kCallBudget = 2'000'000;

Graph make_graph(int vertices, const std::vector<Edge>& edges) {
  Graph g(static_cast<std::size_t>(vertices));
  for (const Edge& e : edges) boost::add_edge(e.a, e.b, e.width, g);
  return g;
}

struct OutOfBudget {};

}  // namespace

std::optional<std::vector<int>> hamiltonian_cycle(int vertices,
                                                  const std::vector<Edge>& edges,
                                                  bool* exhausted) {
  if (exhausted) *exhausted = false;
  if (vertices < 3) return std::nullopt;
  const Graph g = make_graph(vertices, edges);
  for (int v = 0; v < vertices; ++v)
    if (boost::out_degree(v, g) < 2) return std::nullopt;
  std::vector<int> component(static_cast<std::size_t>(vertices));
  if (boost::connected_components(g, component.data()) != 1) return std::nullopt;
  std::vector<std::size_t> cuts;
  boost::articulation_points(g, std::back_inserter(cuts));
  if (!cuts.empty()) return std::nullopt;
  // A cycle through a two-coloured graph visits as many of one colour as of the other.
  std::vector<boost::default_color_type> colour(static_cast<std::size_t>(vertices));
  const auto index = get(boost::vertex_index, g);
  if (boost::is_bipartite(g, index,
                          boost::make_iterator_property_map(colour.begin(), index)) &&
      2 * std::count(colour.begin(), colour.end(), boost::white_color) != vertices)
    return std::nullopt;

  Graph cycle(static_cast<std::size_t>(vertices));
  for (int v = 0; v < vertices; ++v) boost::add_edge(v, (v + 1) % vertices, cycle);
  std::optional<std::vector<int>> found;
  const auto take = [&](const auto& to_graph, const auto&) {
    std::vector<int> order;
    for (int v = 0; v < vertices; ++v)
      order.push_back(static_cast<int>(get(to_graph, static_cast<std::size_t>(v))));
    found = std::move(order);
    return false;  // the first is enough
  };
  long calls = 0;
  const auto count_edge = [&](const auto&, const auto&) {
    if (++calls > kCallBudget) throw OutOfBudget{};
    return true;
  };
  try {
    boost::vf2_subgraph_mono(cycle, g, take, boost::vertex_order_by_mult(cycle),
                             boost::edges_equivalent(count_edge));
  } catch (const OutOfBudget&) {
    if (exhausted) *exhausted = true;
  }
  return found;
}

Routes::Routes(int vertices, const std::vector<Edge>& edges)
    : n_(static_cast<std::size_t>(vertices)), routes_(n_ * n_) {
  const Graph g = make_graph(vertices, edges);
  constexpr double kWide = std::numeric_limits<double>::infinity();
  for (int from = 0; from < vertices; ++from) {
    std::vector<double> width(n_, 0);
    boost::dijkstra_shortest_paths(
        g, from,
        boost::distance_map(width.data())
            .weight_map(get(boost::edge_weight, g))
            .distance_compare(std::greater<>())
            .distance_combine([](double a, double b) { return std::min(a, b); })
            .distance_inf(0.0)
            .distance_zero(kWide));
    // Fewest edges over those at least as wide, one search per target: (width, hops) in
    // one pass is not exact.
    for (int to = 0; to < vertices; ++to) {
      if (to == from || width[to] <= 0) continue;
      std::vector<int> by(n_, -1), queue = {from};
      std::vector<bool> seen(n_, false);
      seen[from] = true;
      for (std::size_t i = 0; i < queue.size() && !seen[to]; ++i)
        for (std::size_t e = 0; e < edges.size(); ++e) {
          if (edges[e].width < width[to]) continue;
          const int next = edges[e].a == queue[i]   ? edges[e].b
                           : edges[e].b == queue[i] ? edges[e].a
                                                    : -1;
          if (next < 0 || seen[next]) continue;
          seen[next] = true;
          by[next] = static_cast<int>(e);
          queue.push_back(next);
        }
      auto& route = routes_[static_cast<std::size_t>(from) * n_ + to];
      for (int at = to; at != from;) {
        const Edge& e = edges[by[at]];
        route.push_back(by[at]);
        at = e.a == at ? e.b : e.a;
      }
      std::reverse(route.begin(), route.end());
    }
  }
}

std::vector<std::vector<int>> islands(int vertices, const std::vector<Edge>& edges) {
  const Graph g = make_graph(vertices, edges);
  std::vector<int> component(static_cast<std::size_t>(vertices));
  const int n = boost::connected_components(g, component.data());
  std::vector<std::vector<int>> all(static_cast<std::size_t>(n));
  for (int v = 0; v < vertices; ++v) all[component[v]].push_back(v);
  return all;
}

}  // namespace hpplan::graph
