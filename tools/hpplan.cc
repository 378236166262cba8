// hpplan: planning and its verbs. Parsing and wiring only; one file a verb where a verb has flags of its own.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <iostream>

#include "planner/spec/error.h"
#include "tools/verbs.h"

namespace {

// CLI11's own errors in the form of ours, with the nearest flag.
int say(const CLI::App& app, const CLI::ParseError& e) {
  if (e.get_exit_code() == 0) return app.exit(e);
  std::vector<std::string> known;
  const CLI::App* used = &app;
  for (const CLI::App* sub : app.get_subcommands()) used = sub;
  for (const CLI::Option* option : used->get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  for (const CLI::App* sub : app.get_subcommands({})) known.push_back(sub->get_name());
  std::string text = e.what();
  const std::size_t flag = text.find("--");
  if (dynamic_cast<const CLI::ExtrasError*>(&e) != nullptr) {
    const std::vector<std::string> extra = app.remaining(true);
    if (!extra.empty())
      text = hpplan::concat("unknown argument '", extra[0].substr(0, 80), "'",
                            hpplan::did_you_mean(extra[0].substr(0, extra[0].find('=')), known));
  } else if (flag != std::string::npos) {
    text = "bad value: " + text;
  }
  std::fprintf(stderr, "hpplan: %s\n  hpplan %s--help shows what there is\n", text.c_str(),
               used == &app ? "" : (used->get_name() + " ").c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  // A reader that leaves early (head) ends the program without a word.
  std::signal(SIGPIPE, SIG_DFL);
  CLI::App app{
      "hpplan plans tensor-parallel x ring x Ulysses meshes for diffusion transformers: which layouts are legal on a\n"
      "machine and why the others are not, how long a step takes, how much memory each needs, and which is best.\n",
      "hpplan"};
  app.footer(
      "\nExamples:\n"
      "  hpplan --model minimax-h3 --topology trn2.48xl --fabric-rules compiled\n"
      "  hpplan --model wan2.1-14b --topology hgx-h200 --engine sglang --devices 8 -o plan.yaml\n"
      "  hpplan --model path/to/transformer/config.json --topology hgx-h100 --nodes 4 --pareto\n"
      "  hpplan check --model minimax-h3 --topology hgx-h200 --engine diffusers --tp 8 --ulysses 8\n"
      "  hpplan tune --model minimax-h3-tiny --topology local --devices 4 --budget 60s -o plan.yaml\n"
      "  hprun plan.yaml --nproc 8        runs a plan\n"
      "\nThe plan goes to standard output (a table on a terminal, YAML when piped; --format decides).\n"
      "Exit code: 0 done, 1 nothing legal (or illegal, for check), 2 wrong input.\n");
  app.set_version_flag("--version", HPPLAN_VERSION);
  app.require_subcommand(0, 1);
  app.fallthrough(false);

  int code = 0;
  hpplan::tools::add_plan(app, code);
  hpplan::tools::add_check(app, code);
  hpplan::tools::add_list(app, code);
  hpplan::tools::add_show(app, code);
  hpplan::tools::add_validate(app, code);
  hpplan::tools::add_calibrate(app, code);
  hpplan::tools::add_tune(app, code);
  hpplan::tools::add_bench(app, code);
  hpplan::tools::add_compare(app, code);
  try {
    app.parse(argc, argv);
    hpplan::tools::run_plan(app);
  } catch (const CLI::ParseError& e) {
    return say(app, e);
  } catch (const hpplan::InputError& e) {
    std::fflush(stdout);
    std::fprintf(stderr, "hpplan: %s\n", e.what());
    return 2;
  }
  return code;
}
