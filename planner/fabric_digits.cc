// The load of digit sets by closed forms: what a byte to every peer, or to the next of a
// ring, puts on each level follows from the digits alone.
#include <algorithm>

#include "planner/fabric_impl.h"

namespace hpplan {
namespace {

// Busiest directed link of one line of a torus dimension when each position sends 1 to
// every other position of its group along the line; half each way where both are as far.
double line_load(const Topology& topology, const DigitSpace& space, DigitSet set,
                 int level) {
  const Level& ring = topology.levels[level];
  const int size = ring.size;
  const bool wrap = ring.wrap && (topology.group_rule != GroupRule::kTpuTorus ||
                                  space.levels()[level].count == size);
  std::vector<double> up(static_cast<std::size_t>(size)), down(up);
  for (const auto& group : space.line_groups(set, level))
    for (const int a : group)
      for (const int b : group) {
        if (a == b) continue;
        const int forward = (b - a + size) % size, backward = size - forward;
        double ahead = b > a ? 1 : 0;
        if (wrap) ahead = forward < backward ? 1 : forward == backward ? 0.5 : 0;
        for (int i = 0, at = a; ahead > 0 && i < forward; ++i, at = (at + 1) % size)
          up[at] += ahead;
        for (int i = 0, at = a; ahead < 1 && i < backward;
             ++i, at = (at + size - 1) % size)
          down[at] += 1 - ahead;
      }
  return std::max(*std::max_element(up.begin(), up.end()),
                  *std::max_element(down.begin(), down.end()));
}

}  // namespace

double Fabric::Impl::load_of_digits(Pattern pattern, const DigitSpace& space,
                                    DigitSet set, const CollectiveCurve* curve) const {
  // A device sends 1 byte in all. divergence[l]: what of it goes to members that differ
  // first at level l. For rings the byte goes to the successor, which differs first at
  // the innermost level of the set, but for the last member below each child.
  const int levels = static_cast<int>(size.size());
  const int n = space.degree(set);
  std::vector<int> extent(levels), inside(levels), used(levels);
  for (int l = levels - 1, members = 1, below = 1; l >= 0; --l) {
    extent[l] = space.degree_at(set, l);
    inside[l] = members;  // members of a group under one child
    used[l] = below;      // devices in use under one child
    members *= extent[l];
    below *= space.levels()[l].count;
  }
  const bool pairs = pattern == Pattern::kAllPairs;
  const auto share = [&](int l) {
    return static_cast<double>(extent[l] - 1) * inside[l] / (n - 1);
  };
  double worst = 0;
  const auto count = [&](double bytes, double capacity) {
    if (capacity > 0) worst = std::max(worst, bytes / capacity);
  };

  double port = 0, tree = 0, host = 0;  // sent by one device, so far from outside in
  bool tree_crossed = false;
  for (int l = 0; l < levels; ++l) {
    const LinkKind k = kind(l);
    const bool crossed = extent[l] > 1;
    const bool passes = k == LinkKind::kSwitch || k == LinkKind::kPcie;
    if (passes && crossed) {
      tree += share(l);
      tree_crossed = true;
    }
    if (passes && stride[l] > 1 && tree_crossed)
      count(pairs ? used[l] * tree : static_cast<double>(used[l]) / inside[l],
            uplink_capacity(l));
    if (!crossed) continue;
    const double sent = pairs ? share(l) : 1;
    if (k == LinkKind::kNetwork) {
      // One NIC a device, or one for all of them: path() asks for no other here.
      const double nic = nic_capacity();
      const bool shared_nic = nics() < stride[network];
      const double crossing = static_cast<double>(used[l]) / inside[l];
      if (pattern == Pattern::kRing)
        count(crossing, nic * (shared_nic ? 1 : used[l]));
      else if (shared_nic)
        count(pairs ? used[l] * sent : crossing, nic);
      else
        count(sent, nic);
      continue;
    }
    if (k == LinkKind::kBridge) {
      count(used[l] * sent / (pairs ? 1 : inside[l]), link_capacity(l));
      continue;
    }
    port += share(l);
    if (passes && bounce) host += share(l);
    if (k == LinkKind::kFullMesh) {
      // A pair of children shares one link; rings use all links at once.
      const double link = pattern == Pattern::kShift ? 1
                          : pairs                    ? share(l) / (extent[l] - 1)
                                                     : 1.0 / (extent[l] - 1);
      count(pattern == Pattern::kAllPairs
                ? used[l] * link
                : static_cast<double>(used[l]) / inside[l] * link,
            link_capacity(l));
    }
    if (k == LinkKind::kShared)
      count(pairs ? used[l] * space.levels()[l].count * sent
                  : static_cast<double>(used[l]) * space.levels()[l].count,
            rates.host.value);
    if (k == LinkKind::kRing) {
      // Routed dimension by dimension, every chip carries on as much as it got, so a line
      // of chips is loaded as if each of its chips sent to each coordinate of the group
      // in this dimension.
      const int members = extent[ring_first] * inside[ring_first];
      const double each = static_cast<double>(members) / extent[l] / (n - 1);
      count(used[ring_last - 1] * each * line_load(topology, space, set, l),
            link_capacity(l));
    }
  }
  if (port > 0) count(pairs ? port : 1, port_capacity(curve));
  if (host > 0) {
    const int child = socket_split
                          ? used[socket_level]
                          : used[socket_level] * space.levels()[socket_level].count;
    count(2 * child * (pairs ? host : 1), rates.host.value);
  }
  return worst;
}

}  // namespace hpplan
