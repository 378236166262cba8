// The verbs of hpplan. Each add_* puts its flags on the program and says what runs when it is asked for; code
// becomes the exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace hpplan::tools {

void add_plan(CLI::App& app, int& code);   // no verb: make a plan
void run_plan(CLI::App& app);              // after parsing, when no verb was given
void add_check(CLI::App& app, int& code);
void add_list(CLI::App& app, int& code);
void add_show(CLI::App& app, int& code);
void add_validate(CLI::App& app, int& code);
void add_calibrate(CLI::App& app, int& code);
void add_tune(CLI::App& app, int& code);
void add_bench(CLI::App& app, int& code);
void add_compare(CLI::App& app, int& code);

// "table", "yaml" or "json"; "" becomes table on a terminal, yaml otherwise.
std::string output_format(const std::string& asked);
// To the file, or to standard output when path is "".
void put(const std::string& path, const std::string& text);
bool color(int file_descriptor);

}  // namespace hpplan::tools
