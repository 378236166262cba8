// hprun: runs a plan. Parsing and wiring only.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <unistd.h>

#include "planner/spec/error.h"
#include "planner/spec/plan_yaml.h"
#include "planner/spec/quantity.h"
#include "runtime/environment.h"
#include "runtime/handshake.h"
#include "runtime/launch.h"
#include "runtime/run.h"

namespace {

// A probe is long: what would make it useless is refused before it starts.
void check_probe(const hpplan::runtime::RunOptions& o) {
  using hpplan::InputError;
  const std::pair<const char*, bool> others[] = {{"--verify", o.verify},
                                                 {"--measure", !o.measure.empty()},
                                                 {"--trace", !o.trace.empty()},
                                                 {"--inputs", !o.inputs.empty()},
                                                 {"--outputs", !o.outputs.empty()}};
  for (const auto& [flag, given] : others)
    if (given) throw InputError({"--probe"}, "", hpplan::concat("runs no model: leave ", flag, " out, or run it by itself"));
  const std::filesystem::path folder = std::filesystem::absolute(o.probe).parent_path();
  if (access(folder.c_str(), W_OK) != 0)
    throw InputError({"--probe"}, "", hpplan::concat("cannot write ", o.probe, ": the folder ", folder.string(), " is not there or not writable"));
}

int run(int argc, char** argv) {
  using namespace hpplan;
  CLI::App app{"hprun runs a plan of hpplan: one process a rank, over Gloo on CPUs and NCCL on GPUs.\n", "hprun"};
  app.footer(
      "\nExamples:\n"
      "  hprun plan.yaml --nproc 8                           8 local ranks, seeded random weights\n"
      "  hprun plan.yaml --nproc 8 --verify                  prove the mesh against one device\n"
      "  hprun plan.yaml --nproc 8 --measure now.yaml        time steps\n"
      "  hprun tp.yaml ulysses.yaml ring.yaml --nproc 8 --probe probe.yaml\n"
      "  hprun plan.yaml --nproc 8 --checkpoint h3/transformer --inputs prompt.safetensors --outputs latents.safetensors\n"
      "  torchrun --no-python --nnodes 2 --nproc-per-node 8 hprun plan.yaml --measure now.yaml\n"
      "\nMore than one host goes through torchrun, srun or mpirun. Exit code: 0 done, 1 failed, 2 wrong input,\n"
      "3 another rank fell silent.\n");
  runtime::RunOptions o;
  int nproc = 0, port = 0;
  std::string timeout = "30s";
  app.add_option("plan", o.plans, "plan file; several of one world size with --measure or --probe")->required();
  app.add_option("--nproc", nproc, "start so many local ranks")->check(CLI::Range(1, 4096));
  app.add_option("--port", port, "port of the local ranks' meeting place (default: a free one)")->check(CLI::Range(1, 65535));
  app.add_option("--timeout", timeout, "longest wait for another rank")->capture_default_str();
  app.add_option("--checkpoint", o.checkpoint, "diffusers transformer folder (config.json, safetensors)");
  app.add_option("--seed", o.seed, "of random weights, request and noise")->capture_default_str();
  app.add_option("--inputs", o.inputs, "safetensors with the request (default: a random one of the plan's rows)");
  app.add_option("--outputs", o.outputs, "safetensors for the final latents");
  app.add_option("--steps", o.steps, "denoise steps (default: the plan's)");
  app.add_option("--threads", o.threads, "threads of one rank (default: cores of the host / its ranks)");
  app.add_flag("--verify", o.verify, "compare one step with a single device, local shapes and collectives with the plan");
  app.add_option("--measure", o.measure, "write the times of steps here, a file a plan");
  app.add_option("--probe", o.probe, "time collectives, products and attention of the plans' axes and shapes; for hpplan calibrate");
  app.add_option("--trace", o.trace, "write a Chrome / Perfetto trace of all ranks here");
  app.add_option("--warmup", o.warmup, "steps before --measure counts")->check(CLI::Range(0, 1000))->capture_default_str();
  app.add_option("--iterations", o.iterations, "steps that --measure counts")->check(CLI::Range(1, 100000))->capture_default_str();
  app.set_version_flag("--version", runtime::software_version());
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);
    std::fprintf(stderr, "hprun: %s\n  hprun --help shows what there is\n", e.what());
    return 2;
  }
  o.timeout = std::chrono::milliseconds(
      static_cast<std::int64_t>(parse_seconds(timeout, {"--timeout"}).value * 1000));
  if (o.timeout.count() < 100) throw InputError({"--timeout"}, "", concat("expected at least 100ms, got ", timeout));
  if (!o.measure.empty() && o.measure.size() != o.plans.size())
    throw InputError({"--measure"}, "", concat(o.plans.size(), " plans need ", o.plans.size(), " files, got ", o.measure.size()));
  if (o.plans.size() > 1 && o.measure.empty() && o.probe.empty())
    throw InputError("several plans are taken with --measure or --probe only");
  if (!o.probe.empty()) check_probe(o);
  if (o.steps && *o.steps < 2) throw InputError({"--steps"}, "", concat("expected at least 2 points of the schedule, got ", *o.steps));

  const auto environment = runtime::rank_environment();
  if (environment && (nproc == 0 || environment->launcher == "hprun")) return runtime::run_rank(o, *environment);
  // Everything a rank would refuse is refused once, before any is started.
  for (const std::string& path : o.plans) {
    const Plan plan = read_plan(path);
    const int ranks = nproc > 0 ? nproc : 1;
    if (const std::string wrong = runtime::wrong_world(plan, ranks); !wrong.empty())
      throw InputError({path}, "", nproc > 0 ? wrong : wrong + "; --nproc starts local ranks");
  }
  runtime::LaunchOptions launch;
  launch.ranks = nproc > 0 ? nproc : 1;
  launch.port = port;
  launch.timeout = o.timeout;
  launch.command.assign(argv, argv + argc);
  return runtime::launch_local(launch);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const hpplan::InputError& e) {
    std::fprintf(stderr, "hprun: %s\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    // libtorch appends its own call stack; what happened is before it.
    const std::string what = e.what();
    std::fprintf(stderr, "hprun: %s\n", what.substr(0, what.find("\nException raised from")).c_str());
    return 1;
  }
}
