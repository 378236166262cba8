#include "planner/spec/engine_yaml.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "planner/spec/error.h"

namespace hpplan {
namespace {

const char kSmall[] = R"(name: small
title: Small engine
source: https://example.org/small
vendors: [nvidia]
axes:
  ring: [allgather]
  cfg: 2
heads:
  kv_replication: true
head_modes:
  - heads: pad-real-head
    rows: uneven
    rows_with_ring: strict
    flag: anything
mesh:
  rank_order: [ulysses, ring, tp]
weights:
  adaln_divided: false
stacks:
  - name: eager
    passes_d: 22
    passes_f: 2.5
    passes_a: 36
    passes_ulysses_pack: 16
    passes_ring_merge: 10
    host_per_block: 1ms
    host_per_collective: 50us
    host_per_hop: 0.15ms
    source: assumed
memory: {fixed: 2GiB, activation_factor: 7.5, source: fitted}
)";

// kSmall with the first `from` replaced.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = kSmall;
  text.replace(text.find(from), from.size(), to);
  return text;
}

std::string error_of(const std::string& text) {
  try {
    parse_engine(text, "small.yaml");
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(EngineYaml, ReadsEveryField) {
  const Engine e = parse_engine(kSmall, "small.yaml");
  EXPECT_EQ(e.name, "small");
  EXPECT_FALSE(e.ring_p2p);
  EXPECT_TRUE(e.ring_allgather);
  EXPECT_TRUE(e.cfg);
  EXPECT_EQ(e.cfg_max, 2);
  ASSERT_EQ(e.head_modes.size(), 1u);
  EXPECT_EQ(e.head_modes[0].policy, HeadPolicy::kPadRealHead);
  EXPECT_EQ(e.head_modes[0].rows_with_ring, RowPolicy::kStrict);
  EXPECT_EQ(e.rank_order, (std::vector<Axis>{Axis::kUlysses, Axis::kRing, Axis::kTp}));
  EXPECT_FALSE(e.adaln_divided);
  EXPECT_EQ(e.stack.name, "eager");
  EXPECT_DOUBLE_EQ(e.stack.host_per_hop.value, 150e-6);
  EXPECT_DOUBLE_EQ(e.memory_fixed.value, 2 * kGiB);
  EXPECT_EQ(e.memory_source, Source::kFitted);
}

TEST(EngineYaml, WrongInputNamesPlaceAndNearestValue) {
  EXPECT_EQ(error_of(kSmall), "");
  EXPECT_NE(error_of(changed("kv_replication", "kv_replicaton"))
                .find("did you mean 'kv_replication'"),
            std::string::npos);
  EXPECT_NE(error_of(changed("kv_replication", "kv_replicaton")).find("small.yaml:9:"),
            std::string::npos);
  EXPECT_NE(error_of(changed("pad-real-head", "pad-real-heads"))
                .find("did you mean 'pad-real-head'"),
            std::string::npos);
  for (const auto& [from, to] : {std::pair{"host_per_block: 1ms", "host_per_block: 1"},
                                 {"cfg: 2", "cfg: 0"},
                                 {"cfg: 2", "cfg: some"},
                                 {"[allgather]", "[gather]"},
                                 {"[ulysses, ring, tp]", "[ulysses, ring, pp]"},
                                 {"passes_d: 22", "passes_d: nan"},
                                 {"source: assumed", "source: guessed"},
                                 {"fixed: 2GiB", "fixed: 2"},
                                 {"name: small\n", ""},
                                 {"adaln_divided: false", "adaln_divided: nope"}})
    EXPECT_NE(error_of(changed(from, to)), "") << to;
  EXPECT_NE(error_of(""), "");
  EXPECT_NE(error_of("[1, 2]"), "");
}

TEST(EngineYaml, EveryProfileReadsAndNamesItsSource) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::string(HPPLAN_SOURCE_DIR) + "/profiles/engines")) {
    const Engine e = read_engine(entry.path().string());
    EXPECT_EQ(e.name + ".yaml", entry.path().filename().string());
    EXPECT_FALSE(e.source.empty());
    EXPECT_FALSE(e.rank_order.empty()) << e.name;
    ++files;
  }
  EXPECT_GE(files, 9);
}

}  // namespace
}  // namespace hpplan
