// hpplan list, hpplan show: what there is.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "planner/rules.h"
#include "planner/spec/catalog.h"
#include "planner/spec/engine_yaml.h"
#include "planner/spec/model_yaml.h"
#include "planner/spec/quantity.h"
#include "planner/spec/rates_yaml.h"
#include "planner/spec/topology_yaml.h"
#include "tools/verbs.h"

namespace hpplan::tools {
namespace {

using Row = std::vector<std::string>;

std::string table(const std::vector<Row>& rows) {
  std::vector<std::size_t> width;
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (width.size() <= i) width.push_back(0);
      width[i] = std::max(width[i], row[i].size());
    }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += i + 1 == row.size() ? row[i] : fmt::format("{:<{}}  ", row[i], width[i]);
    text += line + "\n";
  }
  return text;
}

std::string list(const std::string& what, const std::string& data_dir) {
  const Catalog catalog(data_dir);
  std::vector<Row> rows;
  if (what == "models") {
    rows.push_back({"name", "heads", "head_dim", "hidden", "layers", "parameters", "title"});
    for (const auto& e : catalog.all(DataKind::kModel)) {
      const ModelSpec m = parse_model(e.text, e.file);
      rows.push_back({m.name, std::to_string(m.heads), std::to_string(m.head_dim), std::to_string(m.hidden),
                      std::to_string(m.layers()),
                      fmt::format("{:.2f}e9", static_cast<double>(m.parameters().total()) / 1e9), m.title});
    }
  } else if (what == "topologies") {
    rows.push_back({"name", "devices", "memory", "title"});
    for (const auto& e : catalog.all(DataKind::kTopology)) {
      const Topology t = parse_topology(e.text, e.file);
      rows.push_back({t.name, std::to_string(t.devices()), format(t.device_memory), t.title});
    }
    rows.push_back({"local", "", "", "this machine"});
  } else if (what == "engines") {
    rows.push_back({"name", "title", "stacks"});
    for (const auto& e : catalog.all(DataKind::kEngine)) {
      const Engine engine = parse_engine(e.text, e.file);
      std::string stacks;
      for (const NamedStack& s : engine.stacks) stacks += (stacks.empty() ? "" : ", ") + s.name;
      rows.push_back({engine.name, engine.title, stacks});
    }
  } else if (what == "devices") {
    rows.push_back({"name", "bf16", "memory bandwidth", "source"});
    for (const auto& e : catalog.all(DataKind::kDevice)) {
      const DeviceRates d = parse_device(e.text, e.file);
      rows.push_back({d.name, format(d.peak_bf16), format(d.memory_bandwidth), d.source});
    }
  } else if (what == "fabrics") {
    rows.push_back({"name", "curves", "source"});
    for (const auto& e : catalog.all(DataKind::kFabric)) {
      const FabricRates f = parse_fabric(e.text, e.file);
      rows.push_back({f.name, std::to_string(f.curves.size()), f.source});
    }
  } else {
    rows.push_back({"code", "meaning"});
    for (const RuleInfo& rule : rule_table()) rows.push_back({std::string(rule.code), std::string(rule.meaning)});
  }
  return table(rows);
}

// The file behind a name, of whatever kind it is.
std::string show(const std::string& name, const std::string& data_dir) {
  const Catalog catalog(data_dir);
  std::vector<std::string> known;
  for (const DataKind kind : {DataKind::kModel, DataKind::kTopology, DataKind::kEngine, DataKind::kDevice,
                              DataKind::kFabric}) {
    try {
      const Catalog::Entry entry = catalog.find(kind, name);
      return fmt::format("# {} {}: {}\n{}", to_string(kind), entry.name, entry.file, entry.text);
    } catch (const InputError&) {
      const auto names = catalog.names(kind);
      known.insert(known.end(), names.begin(), names.end());
    }
  }
  for (const RuleInfo& rule : rule_table()) {
    if (rule.code == name) return fmt::format("rule {}: {}\n", rule.code, rule.meaning);
    known.emplace_back(rule.code);
  }
  throw InputError(concat("nothing is named '", name.substr(0, 80), "'", did_you_mean(name, known),
                          " (hpplan list models, topologies, engines, devices, fabrics, rules)"));
}

}  // namespace

void add_list(CLI::App& app, int&) {
  CLI::App* sub = app.add_subcommand("list", "names of models, topologies, engines, devices, fabrics or rules");
  auto what = std::make_shared<std::string>();
  auto data = std::make_shared<std::string>();
  sub->add_option("what", *what, "models, topologies, engines, devices, fabrics or rules")
      ->required()
      ->check(CLI::IsMember({"models", "topologies", "engines", "devices", "fabrics", "rules"}));
  sub->add_option("--data-dir", *data)->envname("HPPLAN_DATA_DIR");
  sub->callback([what, data] { put("", list(*what, *data)); });
}

void add_show(CLI::App& app, int&) {
  CLI::App* sub = app.add_subcommand("show", "the profile behind a name, with the source of every number");
  auto name = std::make_shared<std::string>();
  auto data = std::make_shared<std::string>();
  sub->add_option("name", *name, "a model, topology, engine, device, fabric or rule")->required();
  sub->add_option("--data-dir", *data)->envname("HPPLAN_DATA_DIR");
  sub->callback([name, data] { put("", show(*name, *data)); });
}

}  // namespace hpplan::tools
