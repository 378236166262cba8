// hpplan calibrate: rates of a device and its links from measurements.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <memory>

#include "planner/calibrate.h"
#include "planner/spec/plan_yaml.h"
#include "planner/spec/rates_yaml.h"
#include "planner/spec/yaml_reader.h"
#include "tools/verbs.h"

namespace hpplan::tools {
namespace {

struct CalibrateFlags {
  std::string device, like, fabric, output = ".", data_dir;
  std::vector<std::string> files;
};

// Writes profiles/devices/D.yaml below `root` and says so.
void save(const std::string& root, const std::string& folder, const std::string& name,
          const std::string& text) {
  namespace fs = std::filesystem;
  const fs::path directory = fs::path(root) / folder;
  std::error_code error;
  fs::create_directories(directory, error);
  if (error)
    throw InputError({directory.string()}, "",
                     concat("cannot be made: ", error.message()));
  const std::string path = (directory / (name + ".yaml")).lexically_normal().string();
  write_file(path, text);
  std::cerr << "written: " << path << "\n";
}

void run(const CalibrateFlags& f) {
  for (const std::string& name : {f.device, f.fabric})
    if (name.find('/') != std::string::npos || name.find("..") != std::string::npos)
      throw InputError(
          concat("expected the name of a profile, not a path: '", name, "'"));
  std::vector<CalibrationInput> inputs;
  for (const std::string& argument : f.files) {
    const auto [hints, path] = parse_bench_argument(argument);
    inputs.push_back({path, read_text_file(path), hints});
  }
  const Catalog catalog(f.data_dir);
  const Calibration c = calibrate(catalog, f.device, f.like, f.fabric, inputs);
  std::cerr << calibration_text(c);
  if (f.output == "-") {
    if (c.device_fitted)
      std::cout << "# profiles/devices/" << c.device.name << ".yaml\n"
                << write_device(c.device);
    if (c.fabric_fitted)
      std::cout << (c.device_fitted ? "---\n" : "") << "# profiles/devices/fabrics/"
                << c.fabric.name << ".yaml\n"
                << write_fabric(c.fabric);
    return;
  }
  if (c.device_fitted)
    save(f.output, "profiles/devices", c.device.name, write_device(c.device));
  if (c.fabric_fitted)
    save(f.output, "profiles/devices/fabrics", c.fabric.name, write_fabric(c.fabric));
  std::cerr << "plan with them: hpplan --data-dir " << f.output << " ...\n";
}

}  // namespace

void add_calibrate(CLI::App& app, int&) {
  CLI::App* sub = app.add_subcommand(
      "calibrate", "fit the rates of a device and its links to measurements");
  sub->footer(
      "\nA FILE is output of nccl-tests or nccom-test (OP:FILE or OP:RANKS:FILE where "
      "the text does not say which, OP one "
      "of\nall_reduce, all_gather, reduce_scatter, all_to_all, shift), a measured plan, "
      "a measurement beside its plan, "
      "what hprun --probe\nwrote, or a list of published measurement groups.\n"
      "\nExamples:\n  hpplan calibrate --device h200 all_reduce_8.log "
      "all_to_all:8:a2a.log\n"
      "  hpplan calibrate --device cpu plan.yaml measurement.yaml -o mine\n  hpplan "
      "--data-dir mine --model ...\n"
      "  hpplan calibrate --device my-cpu probe.yaml -o mine\n  hpplan --data-dir mine "
      "--device my-cpu --topology local --model ...\n");
  auto f = std::make_shared<CalibrateFlags>();
  sub->add_option("--device", f->device, "device profile to fit")->required();
  sub->add_option("--like", f->like,
                  "profile that a new device starts from (default: what a probe ran on)");
  sub->add_option("--fabric", f->fabric,
                  "link profile to fit (default: of the first machine with the device; a "
                  "new device's own from a probe)");
  sub->add_option("-o,--output", f->output,
                  "folder that gets profiles/devices/..., - for standard output");
  sub->add_option("--data-dir", f->data_dir)->envname("HPPLAN_DATA_DIR");
  sub->add_option("FILE", f->files, "what was measured")->required();
  sub->callback([f] { run(*f); });
}

}  // namespace hpplan::tools
