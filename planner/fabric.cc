// The fabric's resources and capacities, and the load of digit sets by closed forms.
#include "planner/fabric.h"

#include <algorithm>

#include "planner/fabric_impl.h"
#include "planner/spec/error.h"

namespace hpplan {
namespace {

double first_limit(double a, double b) { return a > 0 ? a : b; }
double narrower(double a, double b) {
  return a > 0 && b > 0 ? std::min(a, b) : std::max(a, b);
}

double link_of(const Level& level) { return level.link ? level.link->value : 0; }

// What stands in for a collective nobody measured: one that moves the same bytes over the
// same links.
std::vector<Collective> relatives(Collective op) {
  switch (op) {
    case Collective::kAllReduce:
      return {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather};
    case Collective::kAllGather:
      return {Collective::kAllGather, Collective::kReduceScatter, Collective::kAllReduce};
    case Collective::kReduceScatter:
      return {Collective::kReduceScatter, Collective::kAllGather, Collective::kAllReduce};
    case Collective::kAllToAll:
      return {Collective::kAllToAll, Collective::kAllGather, Collective::kAllReduce};
    case Collective::kShift:
      return {Collective::kShift, Collective::kAllGather, Collective::kAllReduce};
  }
  return {op};
}

}  // namespace

Fabric::Impl::Impl(const Topology& t, const FabricRates& r)
    : topology(t), rates(r), devices(t.devices()) {
  const int levels = static_cast<int>(t.levels.size());
  size.resize(t.levels.size());
  stride.assign(t.levels.size(), 1);
  for (int l = levels - 1; l >= 0; --l) {
    size[l] = t.levels[l].size;
    if (l + 1 < levels) stride[l] = stride[l + 1] * size[l + 1];
  }
  for (int l = 0; l < levels; ++l) {
    const Level& level = t.levels[l];
    if (level.kind == LinkKind::kNetwork) network = l;
    if (level.kind == LinkKind::kPcie) {
      if (socket_level < 0)
        socket_level = l;
      else
        socket_split = true;
    }
    if (level.kind == LinkKind::kRing) {
      if (!torus()) ring_first = l;
      HP_CHECK(!torus() || ring_last == l, t.name, ": its ring levels are not adjacent");
      ring_last = l + 1;
      widest_ring = std::max(widest_ring, link_of(level));
    }
    if (level.kind == LinkKind::kGraph) {
      const int each = stride[l] * size[l];
      std::vector<graph::Edge> edges;
      for (const Link& link : t.links) {
        widest_graph = std::max(widest_graph, link.per_direction.value);
        if (link.a < each && link.b < each)
          edges.push_back({link.a, link.b, link.per_direction.value});
      }
      routes = graph::Routes(each, edges);
    }
  }
  // A socket is a child of the outermost PCIe level where something stands below it.
  if (socket_level >= 0 && stride[socket_level] > 1) socket_split = true;
  bounce = t.peer_access == PeerAccess::kNone && socket_level >= 0;

  const int domain = network < 0 ? devices : stride[network];
  for (int first = 0; first < devices; first += domain) {
    domains.emplace_back();
    for (int i = 0; i < domain; ++i) domains.back().push_back(first + i);
  }

  for (const CollectiveCurve& curve : rates.curves) {
    std::vector<int> group;
    for (int i = 0; i < std::min(curve.n, devices); ++i) group.push_back(i);
    reference[{curve.op, curve.n}] = load(pattern_of(curve.op, rates), {group}, &curve);
  }
}

int Fabric::Impl::divergence(int a, int b) const {
  int l = 0;
  while (a / stride[l] == b / stride[l]) ++l;
  return l;
}

double Fabric::Impl::link_capacity(int level) const {
  const Level& l = topology.levels[level];
  if (l.kind == LinkKind::kBridge) return link_of(l);
  if (l.kind == LinkKind::kRing && rates.link.value > 0 && link_of(l) > 0)
    return rates.link.value * link_of(l) / widest_ring;  // measured on the widest
  return first_limit(rates.link.value, link_of(l));
}

double Fabric::Impl::uplink_capacity(int level) const {
  const Level& l = topology.levels[level];
  if (l.kind != LinkKind::kPcie) return link_of(l);
  if (level == socket_level)
    return first_limit(
        bounce ? rates.cross.value : narrower(rates.uplink.value, rates.cross.value),
        link_of(l));
  return first_limit(rates.uplink.value, link_of(l));
}

double Fabric::Impl::graph_capacity(int link) const {
  const double width = topology.links[link].per_direction.value;
  return rates.link.value > 0 ? rates.link.value * width / widest_graph : width;
}

double Fabric::Impl::nic_capacity() const {
  if (network < 0) return 0;
  return first_limit(rates.network.value, link_of(topology.levels[network]) / nics());
}

int Fabric::Impl::nics() const {
  const int stated = topology.levels[network].nics;
  return stated > 0 ? std::min(stated, stride[network]) : stride[network];
}

int Fabric::Impl::network_levels() const {
  return static_cast<int>(
      std::count_if(topology.levels.begin(), topology.levels.end(),
                    [](const Level& level) { return level.kind == LinkKind::kNetwork; }));
}

int Fabric::Impl::nic_of(int device) const {
  const int node = device / stride[network], within = device % stride[network];
  return node * nics() + within * nics() / stride[network];
}

// Without a capacity of its own the port is what the curve reached: then a load is the
// curve's own time a byte, and other resources compare with it as they are.
double Fabric::Impl::port_capacity(const CollectiveCurve* curve) const {
  if (rates.device.value > 0) return rates.device.value;
  if (curve != nullptr) return curve->bandwidth.value;
  const Level& leaf = topology.levels.back();
  return leaf.kind == LinkKind::kSwitch || leaf.kind == LinkKind::kPcie ? link_of(leaf)
                                                                        : 0;
}

const CollectiveCurve* Fabric::Impl::curve_for(Collective op, int n) const {
  for (const Collective like : relatives(op)) {
    const CollectiveCurve* best = nullptr;
    for (const CollectiveCurve& c : rates.curves) {
      if (c.op != like) continue;
      const bool below = c.n <= n;
      if (best == nullptr ||
          (below ? best->n > n || c.n > best->n : best->n > n && c.n < best->n))
        best = &c;
    }
    if (best != nullptr) return best;
  }
  return nullptr;
}

Seconds Fabric::Impl::latency_of(const std::vector<bool>& crossed,
                                 int n_reference) const {
  // Levels the reference group crossed are in its curve already.
  Seconds here, there;
  for (std::size_t l = 0; l < crossed.size(); ++l) {
    const Seconds latency = topology.levels[l].latency;
    if (crossed[l]) here = std::max(here, latency);
    const bool reference_crosses = n_reference > stride[l];
    if (reference_crosses) there = std::max(there, latency);
  }
  return std::max(Seconds(0), here - there);
}

AxisPath Fabric::Impl::finish(Collective op, int n, double load,
                              const std::vector<bool>& crossed) const {
  AxisPath path;
  if (n < 2) return path;
  const CollectiveCurve* curve = curve_for(op, n);
  path.bandwidth = BytesPerSecond(load > 0 ? 1 / load : 0);
  if (curve != nullptr) {
    path.op_reference = curve->op;
    path.n_reference = curve->n;
    double alone = reference.at({curve->op, curve->n});
    // A group that is wider than a machine of the topology was measured on a wider one
    // where it is faster than the network between them.
    if (network >= 0 && curve->n > stride[network])
      alone = std::min(alone, 1 / curve->bandwidth.value);
    if (alone > 0 && load > 0) path.contention = load / alone;
  }
  path.latency = latency_of(crossed, path.n_reference);
  for (std::size_t l = 0; l < crossed.size(); ++l)
    if (crossed[l] && kind(static_cast<int>(l)) == LinkKind::kNetwork)
      path.crosses_network = true;
  return path;
}

Fabric::Fabric(const Topology& topology, const FabricRates& rates)
    : impl_(std::make_unique<Impl>(topology, rates)) {}
Fabric::~Fabric() = default;
Fabric::Fabric(Fabric&&) noexcept = default;

const std::vector<std::vector<int>>& Fabric::domains() const { return impl_->domains; }

AxisPath Fabric::path(Collective op, const std::vector<std::vector<int>>& groups) const {
  if (groups.empty() || groups.front().size() < 2) return {};
  const int n = static_cast<int>(groups.front().size());
  std::vector<bool> crossed(impl_->size.size(), false);
  for (const auto& group : groups)
    for (const int member : group)
      if (member != group.front())
        crossed[impl_->divergence(group.front(), member)] = true;
  const CollectiveCurve* curve = impl_->curve_for(op, n);
  return impl_->finish(op, n, impl_->load(pattern_of(op, impl_->rates), groups, curve), crossed);
}

AxisPath Fabric::path(Collective op, const DigitSpace& space, DigitSet set) const {
  const int n = space.degree(set);
  if (n < 2) return {};
  bool regular = true, rings = false;
  std::vector<bool> crossed(impl_->size.size(), false);
  for (int l = 0; l < static_cast<int>(space.levels().size()); ++l) {
    const DigitSpace::SpaceLevel& level = space.levels()[l];
    const bool used = space.degree_at(set, l) > 1;
    const LinkKind kind = impl_->kind(level.first);
    regular = regular && !level.merged && kind != LinkKind::kGraph;
    rings = rings || (used && kind == LinkKind::kRing);
    crossed[level.first] = used;
  }
  // Several NICs, each shared by some, or machines of machines behind one: byte by byte.
  if (impl_->network >= 0 && impl_->nics() < impl_->stride[impl_->network])
    regular = regular && impl_->nics() == 1 && impl_->network_levels() == 1;
  const Pattern pattern = pattern_of(op, impl_->rates);
  if (!regular || (rings && pattern != Pattern::kAllPairs)) {
    auto groups = space.groups(set);
    if (pattern == Pattern::kShift) {
      const std::vector<int> turn = ring_turn(space, set);
      for (auto& group : groups) {
        const std::vector<int> by_coordinate = group;
        for (std::size_t i = 0; i < turn.size(); ++i) group[i] = by_coordinate[turn[i]];
      }
    }
    return path(op, groups);
  }
  const CollectiveCurve* curve = impl_->curve_for(op, n);
  return impl_->finish(op, n, impl_->load_of_digits(pattern, space, set, curve), crossed);
}

}  // namespace hpplan
