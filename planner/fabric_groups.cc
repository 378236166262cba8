// Which groups a fabric accepts, and in which order a ring should visit them.
#include <algorithm>
#include <map>
#include <set>

#include "planner/fabric_impl.h"
#include "planner/spec/error.h"

namespace hpplan {
namespace {

std::string text(const std::vector<int>& values, std::size_t most = 12) {
  std::string out = "[";
  for (std::size_t i = 0; i < values.size() && i < most; ++i)
    out += concat(i == 0 ? "" : ",", values[i]);
  return out + (values.size() > most ? ",...]" : "]");
}

std::vector<int> by_chip(std::vector<int> group) {
  std::sort(group.begin(), group.end());  // device indices run chip by chip
  return group;
}

// A closed walk through the cells of a grid of paths, as indices row * columns + column;
// rows even: down every row from the second column on, and back along the first.
std::vector<int> grid_cycle(int rows, int columns) {
  std::vector<int> walk = {0};
  for (int r = 0; r < rows; ++r)
    for (int i = 1; i < columns; ++i)
      walk.push_back(r * columns + (r % 2 == 0 ? i : columns - i));
  for (int r = rows - 1; r > 0; --r) walk.push_back(r * columns);
  return walk;
}

}  // namespace

bool Fabric::Impl::adjacent(int a, int b) const {
  const int inner = stride[ring_last - 1];
  const int device_a = a * inner, device_b = b * inner;
  int steps = 0;
  for (int l = 0; l < ring_last; ++l) {
    const int from = coordinate(device_a, l), to = coordinate(device_b, l);
    if (from == to) continue;
    if (l < ring_first) return false;  // another torus
    const int forward = (to - from + size[l]) % size[l];
    const bool wrapped = std::abs(to - from) != 1;
    if ((forward != 1 && forward != size[l] - 1) || (wrapped && !topology.levels[l].wrap))
      return false;
    ++steps;
  }
  return steps == 1;
}

std::optional<std::vector<int>> Fabric::Impl::find_cycle(const std::vector<int>& chips,
                                                         bool* exhausted) const {
  const int n = static_cast<int>(chips.size());
  if (n == 1) return chips;
  if (n == 2) return adjacent(chips[0], chips[1]) ? std::optional(chips) : std::nullopt;

  // A product of runs, one a dimension, is walked like a snake without a search.
  const int inner = stride[ring_last - 1];
  std::vector<std::vector<int>> runs;  // coordinates, in link order
  std::size_t product = 1;
  for (int l = ring_first; l < ring_last; ++l) {
    std::set<int> used;
    for (const int c : chips) used.insert(coordinate(c * inner, l));
    std::vector<int> run(used.begin(), used.end());
    // Start after a gap: {0,3} of a ring of four is the run 3,0.
    std::size_t gaps = 0, start = 0;
    for (std::size_t i = 0; i < run.size(); ++i) {
      const int next = run[(i + 1) % run.size()];
      const bool wrap_step = i + 1 == run.size();
      const bool linked =
          wrap_step ? topology.levels[l].wrap && next == 0 && run[i] == size[l] - 1
                    : next == run[i] + 1;
      if (linked) continue;
      ++gaps;
      start = (i + 1) % run.size();
    }
    if (gaps > 1) return graph_cycle(chips, exhausted);
    std::rotate(run.begin(), run.begin() + static_cast<std::ptrdiff_t>(start), run.end());
    product *= run.size();
    runs.push_back(std::move(run));
  }
  const bool one_torus =
      chips.front() * inner / (stride[ring_first] * size[ring_first]) ==
      chips.back() * inner / (stride[ring_first] * size[ring_first]);
  if (product != chips.size() || !one_torus) return graph_cycle(chips, exhausted);

  // Chip at each place of a path through all runs but the last long one, snake-wise.
  const int base = chips.front() * inner / (stride[ring_first] * size[ring_first]) *
                   (stride[ring_first] * size[ring_first]) / inner;
  std::vector<int> path = {base};
  std::vector<int> last;  // offsets of the last dimension longer than 1
  for (int l = ring_first; l < ring_last; ++l) {
    const auto& run = runs[static_cast<std::size_t>(l - ring_first)];
    std::vector<int> offsets;
    for (const int c : run) offsets.push_back(c * (stride[l] / inner));
    if (run.size() > 1 && last.empty()) {
      last = offsets;
      continue;
    }
    std::vector<int> longer;
    for (std::size_t i = 0; i < path.size(); ++i)
      for (std::size_t j = 0; j < offsets.size(); ++j)
        longer.push_back(path[i] + offsets[i % 2 == 0 ? j : offsets.size() - 1 - j]);
    path = std::move(longer);
  }
  const int rows = static_cast<int>(path.size()), columns = static_cast<int>(last.size());
  std::vector<int> cycle;
  if (rows > 1 && rows % 2 == 0) {
    for (const int at : grid_cycle(rows, columns))
      cycle.push_back(path[at / columns] + last[at % columns]);
  } else if (rows > 1 && columns % 2 == 0) {
    for (const int at : grid_cycle(columns, rows))
      cycle.push_back(path[at % rows] + last[at / rows]);
  } else {
    return graph_cycle(chips, exhausted);
  }
  return cycle;
}

std::optional<std::vector<int>> Fabric::Impl::graph_cycle(const std::vector<int>& chips,
                                                          bool* exhausted) const {
  std::vector<graph::Edge> edges;
  const int n = static_cast<int>(chips.size());
  for (int i = 0; i < n; ++i)
    for (int j = i + 1; j < n; ++j)
      if (adjacent(chips[i], chips[j])) edges.push_back({i, j, 1});
  auto walk = graph::hamiltonian_cycle(n, edges, exhausted);
  if (walk)
    for (int& place : *walk) place = chips[place];
  return walk;
}

std::optional<std::vector<int>> Fabric::Impl::chip_cycle(const std::vector<int>& chips,
                                                         bool* exhausted) const {
  if (chips.size() < 3) return find_cycle(chips, exhausted);
  const std::lock_guard<std::mutex> lock(cycles_guard);
  auto known = cycles.find(chips);
  if (known == cycles.end()) {
    Cycle answer;
    answer.walk = find_cycle(chips, &answer.exhausted);
    known = cycles.emplace(chips, std::move(answer)).first;
  }
  if (exhausted) *exhausted = known->second.exhausted;
  return known->second.walk;
}

std::optional<std::vector<int>> Fabric::Impl::ring_walk(const std::vector<int>& group,
                                                        bool* exhausted) const {
  if (exhausted) *exhausted = false;
  if (group.size() < 2) return group;
  // Domains end to end, so that slow links are crossed once a domain.
  if (network >= 0) {
    std::map<int, std::vector<int>> by_node;
    for (const int d : group) by_node[d / stride[network]].push_back(d);
    if (by_node.size() > 1) {
      std::vector<int> walk;
      for (const auto& [node, members] : by_node) {
        const auto part = ring_walk(members, exhausted);
        if (!part) return std::nullopt;
        walk.insert(walk.end(), part->begin(), part->end());
      }
      return walk;
    }
  }
  if (torus()) {
    const std::vector<int> sorted = by_chip(group);
    std::vector<int> chips;
    for (const int d : sorted)
      if (chips.empty() || chips.back() != chip(d)) chips.push_back(chip(d));
    const auto cycle = chip_cycle(chips, exhausted);
    if (!cycle) return std::nullopt;
    std::vector<int> walk;
    walk.reserve(group.size());
    for (const int c : *cycle) {
      const int inner = stride[ring_last - 1];
      auto d = std::lower_bound(sorted.begin(), sorted.end(), c * inner);
      for (; d != sorted.end() && chip(*d) == c; ++d) walk.push_back(*d);
    }
    return walk;
  }
  for (std::size_t l = 0; l < size.size(); ++l) {
    if (kind(static_cast<int>(l)) != LinkKind::kGraph) continue;
    if (group.size() == 2) return group;
    // The ring whose slowest link is fastest: thresholds from the widest link down.
    const int each = stride[l] * size[l], base = group.front() / each * each;
    std::set<double, std::greater<>> widths;
    std::vector<graph::Edge> all;
    for (const Link& link : topology.links) {
      const auto a = std::find(group.begin(), group.end(), link.a + base);
      const auto b = std::find(group.begin(), group.end(), link.b + base);
      if (link.a >= each || link.b >= each || a == group.end() || b == group.end())
        continue;
      widths.insert(link.per_direction.value);
      all.push_back({static_cast<int>(a - group.begin()),
                     static_cast<int>(b - group.begin()), link.per_direction.value});
    }
    for (const double width : widths) {
      std::vector<graph::Edge> edges;
      for (const graph::Edge& e : all)
        if (e.width >= width) edges.push_back(e);
      auto cycle =
          graph::hamiltonian_cycle(static_cast<int>(group.size()), edges, exhausted);
      if (!cycle) continue;
      for (int& place : *cycle) place = group[place];
      return cycle;
    }
    return std::nullopt;
  }
  std::vector<int> sorted = group;
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

std::string Fabric::Impl::why_not_routable(const std::vector<int>& group) const {
  if (!torus() || group.size() < 2 || topology.group_rule == GroupRule::kAny ||
      topology.group_rule == GroupRule::kTpuTorus)
    return "";
  // Machines of a cluster: the same local devices on every one.
  if (network >= 0) {
    std::map<int, std::vector<int>> local;
    for (const int d : group) local[d / stride[network]].push_back(d % stride[network]);
    for (auto& [node, members] : local) std::sort(members.begin(), members.end());
    if (local.size() > 1) {
      for (const auto& [node, members] : local)
        if (members != local.begin()->second)
          return concat("node ", local.begin()->first, " holds local devices ",
                        text(local.begin()->second), " and node ", node, " ",
                        text(members));
      return why_not_routable(local.begin()->second);
    }
  }
  const int inner = stride[ring_last - 1];
  const std::vector<int> sorted = by_chip(group);
  std::vector<int> chips, offsets;
  for (std::size_t i = 0; i < sorted.size();) {
    const int c = chip(sorted[i]);
    std::vector<int> members;
    for (; i < sorted.size() && chip(sorted[i]) == c; ++i)
      members.push_back(sorted[i] % inner);
    chips.push_back(c);
    if (chips.size() == 1) offsets = members;
    if (members.size() != offsets.size())
      return concat("chip ", chips[0], " holds ", offsets.size(),
                    " of its members and chip ", c, " ", members.size());
    if (members != offsets)
      return concat("it has cores ", text(offsets), " of chip ", chips[0], " and cores ",
                    text(members), " of chip ", c);
  }
  if (!chip_cycle(chips, nullptr))
    return chips.size() == 2
               ? concat("chips ", chips[0], " and ", chips[1], " have no link")
               : concat("chips ", text(chips, 16),
                        " close no cycle over links of the torus");
  if (topology.group_rule == GroupRule::kNeuronTrn1 &&
      static_cast<int>(offsets.size()) < inner) {
    // Part of every chip: along one line of the torus only.
    int dimensions = 0;
    for (int l = ring_first; l < ring_last; ++l) {
      std::set<int> used;
      for (const int c : chips) used.insert(coordinate(c * inner, l));
      if (used.size() > 1) ++dimensions;
    }
    if (dimensions > 1)
      return concat(
          "it takes ", offsets.size(), " of the ", inner, " cores of ", chips.size(),
          " chips in more than one torus line, for which there are no channels");
  }
  return "";
}

}  // namespace hpplan
