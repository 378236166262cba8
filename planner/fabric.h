// Fabric: the topology as a graph, asked. Which groups its collectives accept, how loaded its busiest
// resource is when all sibling groups run at once, and in which order a ring should visit its devices.
// Built once from a Topology; every answer is a pure function of the question. The only file with Boost.Graph
// is fabric_graph.cc, behind this header.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "planner/placement.h"
#include "planner/spec/plan.h"
#include "planner/spec/rates.h"
#include "planner/spec/topology.h"

namespace hpplan {

// How one axis' traffic runs at its placement.
struct AxisPath {
  // load(all sibling groups at their placement) / load(one group of n_reference on the first devices):
  // multiplies the bandwidth part of the collective's curve.
  double contention = 1;
  int n_reference = 0;     // group size of the curve that was taken; 0: none known
  Collective op_reference = Collective::kAllReduce;  // collective of that curve (all-gather for a missing all-to-all)
  // Wire bytes of one rank a second through the busiest resource, contention included; the estimate where no
  // curve is known. 0: nothing limits.
  BytesPerSecond bandwidth;
  Seconds latency;         // added once a collective (or a hop) for levels the curve did not cross
  bool crosses_network = false;
};

class Fabric {
 public:
  Fabric(const Topology& topology, const FabricRates& rates);
  ~Fabric();
  Fabric(Fabric&&) noexcept;

  // Is every group of the partition legal for this kind of collective? Empty: yes.
  // groups hold device indices in ring order; world is the number of devices used. The
  // nearest legal partition that the finding's text names takes far longer to find than
  // the answer, so a search that only asks leaves the text out.
  std::optional<Finding> refuse(Collective op, Axis axis,
                                const std::vector<std::vector<int>>& groups,
                                FabricRules rules, int world,
                                bool with_text = true) const;

  // Contention and latency of one axis' collectives.
  AxisPath path(Collective op, const std::vector<std::vector<int>>& groups) const;

  // The same for the groups of a set of digits, by closed forms where the fabric is regular.
  AxisPath path(Collective op, const DigitSpace& space, DigitSet set) const;

  // No partition is ever refused, so the groups need not be built to ask.
  bool accepts_any_group() const;

  // ring_ok of facts: every chip holds equally many members with equal core offsets, and the chips close a
  // Hamiltonian cycle in the torus (one chip: yes; two: adjacent). Always true off a torus.
  bool routable(const std::vector<int>& group) const;

  // The order in which a ring should visit the group so that every consecutive pair (with wrap) is as near
  // as it can be; nullopt when no cycle over direct links exists or the search ran out of its budget
  // (then *exhausted is set).
  std::optional<std::vector<int>> ring_order(const std::vector<int>& group, bool* exhausted = nullptr) const;

  // For an axis that owns `set`: the coordinate that stands at each place of a walk over links, the same for
  // all its groups; empty: digit order is as good, or no such walk exists.
  std::vector<int> ring_turn(const DigitSpace& space, DigitSet set) const;

  // Devices joined by scale-up links, as a list of domains.
  const std::vector<std::vector<int>>& domains() const;

  struct Impl;  // fabric_impl.h, for fabric*.cc alone

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace hpplan
