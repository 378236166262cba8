#include "tools/inputs.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "planner/spec/config_json.h"
#include "planner/spec/engine_yaml.h"
#include "planner/spec/hash.h"
#include "planner/spec/local.h"
#include "planner/spec/model_yaml.h"
#include "planner/spec/plan_document.h"
#include "planner/spec/rates_yaml.h"
#include "planner/spec/topology_yaml.h"
#include "planner/spec/yaml_reader.h"

namespace hpplan::tools {
namespace {

bool is_config(const std::string& name) {
  return name.size() > 5 && name.substr(name.size() - 5) == ".json";
}

ModelSpec load_model(const Catalog& catalog, const std::string& name, std::string& hash) {
  if (name.empty()) throw InputError({"--model"}, "", "is needed: a name (hpplan list models), a profile or a config.json");
  std::string path = name;
  if (std::filesystem::is_directory(path) && std::filesystem::exists(path + "/config.json")) path += "/config.json";
  if (is_config(path)) {
    const std::string text = read_text_file(path);
    hash = sha256(text);
    return parse_config_json(text, path, catalog);
  }
  const Catalog::Entry entry = catalog.find(DataKind::kModel, name);
  hash = sha256(entry.text);
  return parse_model(entry.text, entry.file);
}

Workload load_workload(const Inputs& in, const ModelSpec& model) {
  Workload w = default_workload(model);
  if (!in.size.empty()) {
    const std::size_t x = in.size.find('x');
    if (x == std::string::npos)
      throw InputError({"--size"}, "", concat("expected WIDTHxHEIGHT such as 1344x768, got '", in.size, "'"));
    w.width = count_flag("--size", in.size.substr(0, x), 1 << 30);
    w.height = count_flag("--size", in.size.substr(x + 1), 1 << 30);
  }
  const auto set = [](const std::optional<int>& flag, int& field) {
    if (flag) field = *flag;
  };
  set(in.frames, w.frames);
  if (in.text_tokens && *in.text_tokens < 0)  // below 0 means "the model's usual" further in
    throw InputError({"--text-tokens"}, "", concat("expected 0 or more, got ", *in.text_tokens));
  set(in.text_tokens, w.text_rows);
  set(in.reference_tokens, w.reference_rows);
  set(in.batch, w.batch);
  set(in.guidance, w.branches);
  set(in.steps, w.steps);
  set(in.quant_block, w.quant_block);
  if (!in.dtype.empty()) {
    const auto dtype = dtype_from(in.dtype);
    const std::vector<std::string> names = {"f32", "bf16", "f16", "fp8", "int8", "nvfp4"};
    if (!dtype)
      throw InputError({"--dtype"}, "", concat("expected one of f32, bf16, f16, fp8, int8, nvfp4, got '", in.dtype, "'",
                                               did_you_mean(in.dtype, names)));
    w.dtype = *dtype;
  }
  if (!in.seq_len.empty()) w.seq_len = count_flag("--seq-len", in.seq_len, 1 << 30);
  return w;
}

}  // namespace

int count_flag(const std::string& flag, const std::string& text, int most) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > most)
    throw InputError({flag}, "", concat("expected a whole number of 1 to ", most, ", got '", text.substr(0, 60), "'"));
  return value;
}

void add_input_flags(CLI::App& app, Inputs& in) {
  const std::string what = "What is planned";
  app.add_option("--model", in.model, "model: a name (hpplan list models), a profile, or a diffusers config.json")
      ->group(what);
  app.add_option("--topology", in.topology, "machine: a name (hpplan list topologies), a file, or 'local'")->group(what);
  app.add_option("--device", in.device,
                 "device profile whose rates to take instead of the machine's own, and the fabric profile of the same "
                 "name where there is one (hpplan calibrate writes both)")
      ->group(what);
  app.add_option("--nodes", in.nodes, "so many of the machine, joined by their network")->group(what);
  app.add_option("--lnc", in.lnc, "Trainium logical core size, 1 or 2")->group(what);
  app.add_option("--engine", in.engine, "software that will run the plan (hpplan list engines)")
      ->group(what)
      ->capture_default_str();
  app.add_option("--stack", in.stack, "how the engine is run, of the stacks of its profile (hpplan show ENGINE)")
      ->group(what);
  app.add_option("--fabric-rules", in.fabric_rules,
                 "collective groups the machine takes: eager (the safe side, default) or compiled")
      ->group(what);
  const std::string request = "The request (default: the model's usual one)";
  app.add_option("--size", in.size, "WIDTHxHEIGHT in pixels")->group(request);
  app.add_option("--frames", in.frames, "frames of video")->group(request);
  app.add_option("--text-tokens", in.text_tokens, "rows of the prompt")->group(request);
  app.add_option("--reference-tokens", in.reference_tokens, "rows of reference images or audio")->group(request);
  app.add_option("--seq-len", in.seq_len, "rows of attention, in place of size, frames and text")->group(request);
  app.add_option("--batch", in.batch, "requests at once")->group(request);
  app.add_option("--guidance", in.guidance, "forward passes a step: 1 distilled or none, 2 classifier-free")
      ->group(request);
  app.add_option("--dtype", in.dtype, "f32, bf16, f16, fp8, int8 or nvfp4")->group(request);
  app.add_option("--quant-block", in.quant_block, "columns of one scale of quantized weights")->group(request);
  app.add_option("--steps", in.steps, "denoise steps")->group(request);
  app.add_option("--data-dir", in.data_dir, "folder with profiles/ and topologies/ that add to or replace ours")
      ->envname("HPPLAN_DATA_DIR");
}

Topology load_topology(const Catalog& catalog, const std::string& name, std::optional<int> devices) {
  if (name.empty())
    throw InputError({"--topology"}, "", "is needed: a name (hpplan list topologies), a file, or 'local'");
  if (name == "local") return local_topology(devices);
  const Catalog::Entry entry = catalog.find(DataKind::kTopology, name);
  return parse_topology(entry.text, entry.file);
}

Loaded load(const Inputs& in) {
  const Catalog catalog(in.data_dir);
  Loaded loaded;
  ModelSpec model = load_model(catalog, in.model, loaded.model_hash);
  const Workload workload = load_workload(in, model);

  std::string name = in.topology;
  if (in.lnc) {
    if (*in.lnc != 1 && *in.lnc != 2) throw InputError({"--lnc"}, "", concat("expected 1 or 2, got ", *in.lnc));
    if (*in.lnc == 1) name = catalog.find(DataKind::kTopology, name).name + "-lnc1";
  }
  Topology topology = load_topology(catalog, name, in.devices);
  if (name == "local" && in.devices && *in.devices > local_devices())
    loaded.notes.push_back(concat(*in.devices, " ranks on ", local_devices(),
                                  " cores share them: times say little about other machines"));
  if (in.nodes) topology = with_nodes(topology, *in.nodes);
  if (!in.device.empty()) {
    topology.device = catalog.find(DataKind::kDevice, in.device).name;
    const std::vector<std::string> fabrics = catalog.names(DataKind::kFabric);
    if (std::find(fabrics.begin(), fabrics.end(), topology.device) != fabrics.end()) topology.fabric = topology.device;
  }
  loaded.topology_hash = sha256(concat(name, in.device.empty() ? "" : "/" + topology.device, "/", in.nodes.value_or(1), "/",
                                       name == "local" ? concat(topology.devices())
                                                       : catalog.find(DataKind::kTopology, name).text));
  Catalog::Entry entry = catalog.find(DataKind::kEngine, in.engine);
  Engine engine = parse_engine(entry.text, entry.file);
  if (!in.stack.empty()) use_stack(engine, topology.vendor, in.stack);
  entry = catalog.find(DataKind::kDevice, topology.device);
  DeviceRates device = parse_device(entry.text, entry.file);
  FabricRates fabric;
  if (!topology.fabric.empty()) {
    entry = catalog.find(DataKind::kFabric, topology.fabric);
    fabric = parse_fabric(entry.text, entry.file);
  }

  FabricRules rules = FabricRules::kNotApplicable;
  const std::vector<std::string> known = {"eager", "compiled"};
  if (!in.fabric_rules.empty() && in.fabric_rules != "eager" && in.fabric_rules != "compiled")
    throw InputError({"--fabric-rules"}, "", concat("expected eager or compiled, got '", in.fabric_rules, "'",
                                                    did_you_mean(in.fabric_rules, known)));
  if (topology.has_fabric_rules) {
    rules = in.fabric_rules == "compiled" ? FabricRules::kCompiled : FabricRules::kEager;
    if (in.fabric_rules.empty())
      loaded.notes.push_back(
          "fabric rules: eager, the safe side; --fabric-rules compiled allows what whole-graph compilation accepts");
  } else if (!in.fabric_rules.empty()) {
    throw InputError({"--fabric-rules"}, "", concat(topology.name, " has no such choice: leave the flag out"));
  }
  if (topology.peer_access == PeerAccess::kUnknown)
    loaded.notes.push_back(concat("peer access of ", topology.name,
                                  " is not known and decides the order: measure it (nccl-tests alltoall and sendrecv at "
                                  "2, 4, 8 ranks) and set peer_access in the topology"));
  loaded.problem = make_problem(std::move(model), workload, std::move(topology), std::move(engine), std::move(device),
                                std::move(fabric), rules);
  loaded.workload_hash = sha256(canonical(workload_document(loaded.problem.workload, loaded.problem.rows)));
  return loaded;
}

}  // namespace hpplan::tools
