// The flags that say what is planned, and the problem they make. Shared by every verb that plans or judges.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "planner/problem.h"
#include "planner/spec/catalog.h"

namespace hpplan::tools {

struct Inputs {
  std::string model, topology;
  std::string engine = "hprun";
  std::string fabric_rules;  // "", "eager", "compiled"
  std::string size, dtype, seq_len;
  std::optional<int> nodes, lnc, frames, text_tokens, reference_tokens, batch, guidance, steps, quant_block;
  std::optional<int> devices;  // also how many ranks --topology local has
  std::string device;          // rates of this device profile instead of the machine's own
  std::string stack;           // software stack of the engine
  std::string data_dir;
};

// Adds --model, --topology, ... to a command.
void add_input_flags(CLI::App& app, Inputs& inputs);

struct Loaded {
  Problem problem;
  std::string model_hash, workload_hash, topology_hash;  // of the inputs as they were read
  std::vector<std::string> notes;                        // what was assumed
};
// Reads the files the flags name. Throws InputError.
Loaded load(const Inputs& inputs);

// The topology a name stands for: a file, or "local" for this machine.
Topology load_topology(const Catalog& catalog, const std::string& name, std::optional<int> devices);

// A positive whole number of a flag; InputError naming the flag otherwise.
int count_flag(const std::string& flag, const std::string& text, int most);

}  // namespace hpplan::tools
