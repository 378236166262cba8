// Models, machines and engines for the tests of rules and check: dimensions written out
// here, engines read from profiles/engines.
#pragma once

#include <string>
#include <vector>

#include "planner/problem.h"
#include "planner/rules.h"
#include "planner/spec/engine_yaml.h"

namespace hpplan::testing {

inline Engine engine_named(const std::string& name) {
  return read_engine(std::string(HPPLAN_SOURCE_DIR) + "/profiles/engines/" + name +
                     ".yaml");
}

// One packed stream; a plain block.
inline ModelSpec dit(int heads, std::int64_t mlp, std::int64_t hidden = 0,
                     int head_dim = 128) {
  ModelSpec m;
  m.name = m.title = "dit";
  m.heads = m.kv_heads = heads;
  m.head_dim = head_dim;
  m.hidden = hidden > 0 ? hidden : static_cast<std::int64_t>(heads) * head_dim;
  BlockSpec block;
  block.name = "block";
  block.count = 2;
  block.mlp_width = mlp;
  m.blocks = {block};
  StreamSpec video;
  video.name = "video";
  m.streams = {video};
  return m;
}

inline ModelSpec minimax_h3() {
  ModelSpec m = dit(56, 14336, 5376);
  m.name = "minimax-h3";
  m.title = "MiniMax-H3";
  m.blocks[0].count = 50;
  m.blocks[0].mlp_gated = true;
  m.blocks[0].adaln_in = 2688;
  m.blocks[0].adaln_out = 96768;
  m.blocks[0].packed = {{"qkv", {"q", "k", "v"}}, {"gate_up", {"gate", "up"}}};
  return m;
}

// One level of `devices` behind a switch.
inline Topology nvswitch(int devices, const std::string& vendor = "nvidia") {
  Topology t;
  t.name = "nvswitch" + std::to_string(devices);
  t.vendor = vendor;
  Level level;
  level.name = "gpu";
  level.size = devices;
  t.levels = {level};
  return t;
}

inline Topology trn2() {
  Topology t;
  t.name = "trn2";
  t.vendor = "aws-neuron";
  t.group_rule = GroupRule::kNeuronTorus;
  t.has_fabric_rules = true;
  for (const char* name : {"row", "col", "core"}) {
    Level level;
    level.name = name;
    level.size = 4;
    level.kind = level.name == "core" ? LinkKind::kShared : LinkKind::kRing;
    level.labels = level.name == "core" ? Labels::kBinary : Labels::kGray;
    t.levels.push_back(level);
  }
  return t;
}

// No fabric: for rules of degrees. rows: of the one packed stream.
inline Problem problem_of(const ModelSpec& model, const std::string& engine,
                          const Topology& topology, std::int64_t rows = 1 << 14) {
  Problem p;
  p.model = model;
  p.engine = engine_named(engine);
  p.topology = topology;
  p.rows.streams = {{"video", StreamKind::kPacked, rows}};
  p.workload.branches = 1;
  return p;
}

inline std::vector<std::string> codes(const std::vector<Finding>& findings,
                                      Severity severity = Severity::kError) {
  std::vector<std::string> codes;
  for (const Finding& f : findings)
    if (f.severity == severity) codes.push_back(f.code);
  return codes;
}

inline std::vector<std::string> errors(const Problem& p, const Degrees& d,
                                       RingMethod method = RingMethod::kP2p) {
  return codes(check_degrees(p, d, method));
}

inline const Finding* find(const std::vector<Finding>& findings,
                           const std::string& code) {
  for (const Finding& f : findings)
    if (f.code == code) return &f;
  return nullptr;
}

// Degrees of one axis that are legal, all others 1.
inline std::vector<int> legal_degrees(const Problem& p, Axis axis, int limit,
                                      Degrees others = {},
                                      RingMethod method = RingMethod::kP2p) {
  std::vector<int> values;
  for (int n = 1; n <= limit; ++n) {
    others[axis] = n;
    if (legal(check_degrees(p, others, method))) values.push_back(n);
  }
  return values;
}

}  // namespace hpplan::testing
