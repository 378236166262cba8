#include "planner/spec/topology_yaml.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "planner/spec/catalog.h"
#include "planner/spec/error.h"

namespace hpplan {
namespace {

const char* const kBox = R"(name: box
vendor: nvidia
device: h200
device_memory: 141GiB
levels:
  - {name: gpu, size: 8, kind: switch, link: 450GB/s, basis: published}
network: {link: 400GB/s, latency: 5us, basis: assumed}
sources: {all: test}
)";

std::string error_of(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  try {
    parse_topology(text, "box.yaml");
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(TopologyYaml, ReadsEveryPart) {
  const Topology t = parse_topology(kBox, "box.yaml");
  EXPECT_EQ(t.devices(), 8);
  EXPECT_EQ(t.levels[0].kind, LinkKind::kSwitch);
  EXPECT_EQ(t.levels[0].source, Source::kPublished);
  EXPECT_DOUBLE_EQ(t.levels[0].link->value, 450e9);
  ASSERT_TRUE(t.network);
  EXPECT_DOUBLE_EQ(t.network->latency.value, 5e-6);
  EXPECT_EQ(with_nodes(t, 3).devices(), 24);
}

TEST(TopologyYaml, WrongInputIsRefusedWithPlaceAndKey) {
  EXPECT_NE(error_of(kBox, "vendor: nvidia", "vender: nvidia").find("vend"),
            std::string::npos);
  EXPECT_NE(error_of(kBox, "size: 8", "size: 0").find("box.yaml:6"), std::string::npos);
  EXPECT_NE(error_of(kBox, "size: 8", "size: 1000000000").find("box.yaml:6"),
            std::string::npos);
  EXPECT_NE(error_of(kBox, "450GB/s", "450").find("link"), std::string::npos);
  EXPECT_NE(error_of(kBox, "kind: switch", "kind: swich").find("switch"),
            std::string::npos);
  EXPECT_NE(error_of(kBox, ", basis: published", "").find("basis"), std::string::npos);
  EXPECT_NE(error_of(kBox, "kind: switch", "kind: pcie").find("peer_access"),
            std::string::npos);
  EXPECT_NE(error_of(kBox, "{all: test}", "{gpu: test}").find("device_memory"),
            std::string::npos);
  EXPECT_NE(error_of(kBox, "141GiB", "0GiB").find("device_memory"), std::string::npos);
  EXPECT_NE(error_of(kBox, "sources:", "device_ids: [0, 1]\nsources:").find("8 ids"),
            std::string::npos);
  EXPECT_NE(
      error_of(kBox, "sources:", "fabric_rules: true\nsources:").find("neuron-torus"),
      std::string::npos);
  EXPECT_NE(error_of(kBox, "kind: switch", "kind: graph").find("links"),
            std::string::npos);
}

TEST(TopologyYaml, EveryMachineIsReadAndItsRatesExist) {
  const Catalog catalog;
  const auto all = catalog.all(DataKind::kTopology);
  EXPECT_GE(all.size(), 45u);
  std::map<std::string, std::string> names;
  for (const auto& entry : all) {
    const Topology t = parse_topology(entry.text, entry.file);
    EXPECT_EQ(t.name, entry.name);
    EXPECT_NO_THROW(catalog.find(DataKind::kDevice, t.device)) << t.name;
    if (!t.fabric.empty())
      EXPECT_NO_THROW(catalog.find(DataKind::kFabric, t.fabric)) << t.name;
    std::vector<std::string> own = t.aliases;
    own.push_back(t.name);
    for (const std::string& name : own) {
      EXPECT_EQ(names.count(name), 0u)
          << name << " names " << t.name << " and " << names[name];
      names[name] = t.name;
    }
  }
}

TEST(TopologyYaml, MachinesHaveTheDevicesPeopleKnow) {
  const Catalog catalog;
  for (const auto& [name, devices] : std::map<std::string, int>{{"trn2.48xl", 64},
                                                                {"trn2", 64},
                                                                {"trn2.48xl-lnc1", 128},
                                                                {"trn2.3xl", 4},
                                                                {"trn2-ultraserver", 256},
                                                                {"trn3-gen1", 256},
                                                                {"trn3-gen2", 576},
                                                                {"trn1.32xl", 32},
                                                                {"inf2.48xl", 24},
                                                                {"gb200-nvl72", 72},
                                                                {"dgx-2", 16},
                                                                {"mi300x-x8", 8},
                                                                {"rtx4090-x8", 8},
                                                                {"tpu-v5p", 8960},
                                                                {"a100-pcie-x4", 4}})
    EXPECT_EQ(
        parse_topology(catalog.find(DataKind::kTopology, name).text, name).devices(),
        devices)
        << name;
}

TEST(TopologyYaml, ConsumerCardsHaveNoPeerAccessByDefault) {
  const Catalog catalog;
  for (const char* name : {"rtx4090-x8", "rtx5090-x8"}) {
    EXPECT_EQ(
        parse_topology(catalog.find(DataKind::kTopology, name).text, name).peer_access,
        PeerAccess::kNone);
    const std::string patched = std::string(name) + "-p2p";
    EXPECT_EQ(parse_topology(catalog.find(DataKind::kTopology, patched).text, patched)
                  .peer_access,
              PeerAccess::kWorks);
  }
}

}  // namespace
}  // namespace hpplan
