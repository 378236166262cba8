// Machines for the tests of placements, fabric and search, written out by level.
#pragma once

#include <string>
#include <vector>

#include "planner/fabric.h"
#include "planner/spec/topology.h"

namespace hpplan::testing {

inline Level level(const std::string& name, int size, LinkKind kind, double gbs = 0) {
  Level l;
  l.name = name;
  l.size = size;
  l.kind = kind;
  if (gbs > 0) l.link = BytesPerSecond(gbs * 1e9);
  return l;
}

inline Topology machine(const std::string& name, std::vector<Level> levels) {
  Topology t;
  t.name = t.title = name;
  t.vendor = "nvidia";
  t.levels = std::move(levels);
  return t;
}

// rows x columns of chips in a torus, Gray-labelled where 4 long.
inline Topology neuron(int rows, int columns, int cores,
                       GroupRule rule = GroupRule::kNeuronTorus) {
  Topology t = machine("neuron", {level("row", rows, LinkKind::kRing, 128),
                                  level("col", columns, LinkKind::kRing, 128),
                                  level("core", cores, LinkKind::kShared)});
  t.vendor = "aws-neuron";
  t.group_rule = rule;
  t.has_fabric_rules = rule == GroupRule::kNeuronTorus;
  for (int l = 0; l < 2; ++l)
    if (t.levels[l].size == 4) t.levels[l].labels = Labels::kGray;
  return t;
}

inline CollectiveCurve curve(Collective op, int n, double us, double gbs) {
  CollectiveCurve c;
  c.op = op;
  c.n = n;
  c.a = Seconds(us * 1e-6);
  c.bandwidth = BytesPerSecond(gbs * 1e9);
  return c;
}

inline FabricRates trn2_rates() {
  FabricRates r;
  r.name = "trn2";
  r.device = BytesPerSecond(100e9);
  r.link = BytesPerSecond(77e9);
  r.curves = {curve(Collective::kAllReduce, 4, 60, 102),
              curve(Collective::kAllReduce, 8, 60, 77),
              curve(Collective::kAllReduce, 16, 80, 117),
              curve(Collective::kAllReduce, 64, 120, 143),
              curve(Collective::kAllGather, 4, 60, 102),
              curve(Collective::kAllGather, 8, 60, 77),
              curve(Collective::kAllGather, 16, 80, 117)};
  return r;
}

// The digits of a placement text such as "RR TR TT", outermost first; other characters
// are skipped.
inline Placement placement(const std::string& text) {
  Placement p;
  int i = 0;
  for (const char c : text) {
    const std::string letters = "DCRUT";
    const auto at = letters.find(c);
    if (at == std::string::npos) continue;
    p[kAxes[at]] |= DigitSet{1} << i++;
  }
  return p;
}

}  // namespace hpplan::testing
