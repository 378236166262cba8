// How loaded the busiest resource is when explicit groups run at once: every byte is
// routed.
#include <algorithm>
#include <set>

#include "planner/fabric_impl.h"
#include "planner/spec/error.h"

namespace hpplan {

Pattern pattern_of(Collective op, const FabricRates& rates) {
  if (std::find(rates.direct.begin(), rates.direct.end(), op) != rates.direct.end())
    return Pattern::kAllPairs;
  switch (op) {
    case Collective::kAllToAll:
      return Pattern::kAllPairs;
    case Collective::kShift:
      return Pattern::kShift;
    case Collective::kAllReduce:
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      return Pattern::kRing;
  }
  return Pattern::kRing;
}

namespace {

// Bytes by resource, filled flow by flow. Only what a resource sends is counted: every
// pattern here receives as much.
class Loads {
 public:
  Loads(const Fabric::Impl& fabric, const std::vector<std::vector<int>>& groups);

  // Spread over channels, a ring leaves a node through all its NICs; one send leaves
  // through its own.
  void flow(int from, int to, double bytes, bool all_nics);
  double busiest(const CollectiveCurve* curve) const;

 private:
  void along_torus(int from, int to, double bytes);

  const Fabric::Impl& f_;
  int levels_ = 0;
  std::vector<double> port_, nic_, pool_, active_, host_, shared_, graph_;
  // By level, then by child, chip and direction, or pair.
  std::vector<std::vector<double>> child_, ring_, pair_;
  std::vector<bool> wrap_;
};

Loads::Loads(const Fabric::Impl& fabric, const std::vector<std::vector<int>>& groups)
    : f_(fabric), levels_(static_cast<int>(fabric.size.size())) {
  const auto devices = static_cast<std::size_t>(f_.devices);
  port_.resize(devices);
  child_.resize(static_cast<std::size_t>(levels_));
  ring_ = pair_ = child_;
  wrap_.assign(static_cast<std::size_t>(levels_), true);
  for (int l = 0; l < levels_; ++l) {
    const auto children = devices / static_cast<std::size_t>(f_.stride[l]);
    switch (f_.kind(l)) {
      case LinkKind::kSwitch:
      case LinkKind::kPcie:
        if (f_.stride[l] > 1) child_[l].resize(children);
        break;
      case LinkKind::kBridge:
        child_[l].resize(children);
        break;
      case LinkKind::kRing:
        ring_[l].resize(2 * devices /
                        static_cast<std::size_t>(f_.stride[f_.ring_last - 1]));
        break;
      case LinkKind::kFullMesh:
        pair_[l].resize(children * static_cast<std::size_t>(f_.size[l]));
        break;
      case LinkKind::kNetwork:
        nic_.resize(devices);
        pool_.resize(devices / static_cast<std::size_t>(f_.stride[f_.network]));
        break;
      case LinkKind::kGraph:
        graph_.resize(2 * f_.topology.links.size());
        break;
      case LinkKind::kShared:
        shared_.resize(devices / static_cast<std::size_t>(f_.stride[l] * f_.size[l]));
        break;
    }
    // A slice shorter than the level has no wrap link on a TPU; a Neuron ring is wired
    // whole.
    if (f_.kind(l) == LinkKind::kRing) {
      wrap_[l] = f_.topology.levels[l].wrap;
      if (wrap_[l] && f_.topology.group_rule == GroupRule::kTpuTorus) {
        std::set<int> used;
        for (const auto& group : groups)
          for (const int d : group) used.insert(f_.coordinate(d, l));
        wrap_[l] = static_cast<int>(used.size()) == f_.size[l];
      }
    }
  }
  if (f_.bounce && f_.socket_level >= 0)
    host_.resize(devices / static_cast<std::size_t>(
                               f_.stride[f_.socket_level] *
                               (f_.socket_split ? 1 : f_.size[f_.socket_level])));
  if (f_.network >= 0) {
    active_.resize(pool_.size());
    std::vector<bool> counted(nic_.size());
    for (const auto& group : groups)
      for (const int d : group) {
        if (counted[f_.nic_of(d)]) continue;
        counted[f_.nic_of(d)] = true;
        ++active_[d / f_.stride[f_.network]];
      }
  }
}

// Dimension by dimension; half each way where both are as far.
void Loads::along_torus(int from, int to, double bytes) {
  const int inner = f_.stride[f_.ring_last - 1];
  int chip = from / inner;
  for (int l = f_.ring_first; l < f_.ring_last; ++l) {
    const int size = f_.size[l], step = f_.stride[l] / inner;
    const int a = f_.coordinate(from, l), b = f_.coordinate(to, l);
    if (a == b) continue;
    const int forward = (b - a + size) % size, backward = size - forward;
    double up = 0, down = 0;
    if (wrap_[l]) {
      up = forward < backward ? 1 : forward == backward ? 0.5 : 0;
      down = 1 - up;
    } else {
      (b > a ? up : down) = 1;
    }
    const int base = chip - a * step;
    for (int i = 0, at = a; up > 0 && i < forward; ++i, at = (at + 1) % size)
      ring_[l][2 * (base + at * step)] += up * bytes;
    for (int i = 0, at = a; down > 0 && i < backward; ++i, at = (at + size - 1) % size)
      ring_[l][2 * (base + at * step) + 1] += down * bytes;
    chip = base + b * step;
  }
}

void Loads::flow(int from, int to, double bytes, bool all_nics) {
  const int l = f_.divergence(from, to);
  switch (f_.kind(l)) {
    case LinkKind::kNetwork:
      (all_nics ? pool_[from / f_.stride[f_.network]] : nic_[f_.nic_of(from)]) += bytes;
      return;
    case LinkKind::kBridge:
      child_[l][from / f_.stride[l]] += bytes;
      return;
    case LinkKind::kFullMesh:
      pair_[l][static_cast<std::size_t>(from / f_.stride[l]) * f_.size[l] +
               f_.coordinate(to, l)] += bytes;
      break;
    case LinkKind::kRing:
      along_torus(from, to, bytes);
      break;
    case LinkKind::kGraph: {
      // Copies of a machine repeat its links, machine by machine.
      const int each = f_.stride[l] * f_.size[l];
      const auto links =
          f_.topology.links.size() /
          (static_cast<std::size_t>(f_.devices) / static_cast<std::size_t>(each));
      const auto first = static_cast<std::size_t>(from / each) * links;
      int at = from % each;
      for (const int e : f_.routes.between(from % each, to % each)) {
        const Link& link = f_.topology.links[e];
        const bool ahead = link.a == at;
        graph_[2 * (first + e) + (ahead ? 0 : 1)] += bytes;
        at = ahead ? link.b : link.a;
      }
      return;
    }
    case LinkKind::kShared:
      shared_[from / (f_.stride[l] * f_.size[l])] += bytes;
      break;
    case LinkKind::kSwitch:
    case LinkKind::kPcie:
      for (int inner = l; inner < levels_; ++inner)
        if (!child_[inner].empty() && f_.kind(inner) != LinkKind::kBridge)
          child_[inner][from / f_.stride[inner]] += bytes;
      if (!host_.empty()) {  // written to host memory by one, read by the other
        const int socket = f_.devices / static_cast<int>(host_.size());
        host_[from / socket] += bytes;
        host_[to / socket] += bytes;
      }
      break;
  }
  port_[from] += bytes;
}

double Loads::busiest(const CollectiveCurve* curve) const {
  double worst = 0;
  const auto count = [&](const std::vector<double>& bytes, double capacity) {
    if (capacity <= 0 || bytes.empty()) return;
    worst = std::max(worst, *std::max_element(bytes.begin(), bytes.end()) / capacity);
  };
  count(port_, f_.port_capacity(curve));
  count(nic_, f_.nic_capacity());
  for (std::size_t node = 0; node < pool_.size(); ++node)
    if (f_.nic_capacity() > 0 && active_[node] > 0)
      worst = std::max(worst, pool_[node] / (active_[node] * f_.nic_capacity()));
  count(host_, f_.rates.host.value);
  count(shared_, f_.rates.host.value);
  for (int l = 0; l < levels_; ++l) {
    const bool bridge = f_.kind(l) == LinkKind::kBridge;
    count(child_[l], bridge ? f_.link_capacity(l) : f_.uplink_capacity(l));
    count(ring_[l], f_.link_capacity(l));
    count(pair_[l], f_.link_capacity(l));
  }
  for (std::size_t i = 0; i < graph_.size(); ++i)
    worst = std::max(worst, graph_[i] / f_.graph_capacity(static_cast<int>(i / 2)));
  return worst;
}

}  // namespace

double Fabric::Impl::load(Pattern pattern, const std::vector<std::vector<int>>& groups,
                          const CollectiveCurve* curve) const {
  Loads loads(*this, groups);
  for (const auto& group : groups) {
    const auto n = static_cast<int>(group.size());
    if (n < 2) continue;
    if (pattern == Pattern::kAllPairs) {
      for (const int a : group)
        for (const int b : group)
          if (a != b) loads.flow(a, b, 1.0 / (n - 1), false);
      continue;
    }
    std::vector<int> order = group;
    if (pattern == Pattern::kRing) {
      // The library walks over links whatever order the group was given in, and uses
      // every link of a full mesh at once.
      if (const auto walk = ring_walk(group, nullptr)) order = *walk;
    }
    for (int i = 0; i < n; ++i) {
      const int a = order[i], b = order[(i + 1) % n];
      const int l = divergence(a, b);
      if (pattern == Pattern::kRing && kind(l) == LinkKind::kFullMesh) {
        std::vector<int> peers;
        for (const int d : order)
          if (d != a && divergence(a, d) == l) peers.push_back(d);
        for (const int peer : peers)
          loads.flow(a, peer, 1.0 / static_cast<double>(peers.size()), true);
      } else {
        loads.flow(a, b, 1, pattern == Pattern::kRing);
      }
    }
  }
  return loads.busiest(curve);
}

}  // namespace hpplan
