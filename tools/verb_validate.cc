// hpplan validate: predictions against published measurements.
#include <memory>

#include "planner/spec/yaml_reader.h"
#include "planner/validate_report.h"
#include "tools/verbs.h"

namespace hpplan::tools {
namespace {

struct ValidateFlags {
  std::string against, format, data_dir;
  bool ablate = false, detail = false;
};

void run(const ValidateFlags& f) {
  const Catalog catalog(f.data_dir);
  std::vector<MeasuredGroup> groups;
  if (f.against.empty()) {
    const Catalog::Entry entry = catalog.find(DataKind::kMeasurements, "published");
    groups = parse_measurements(entry.text, entry.file);
  } else {
    groups = parse_measurements(read_text_file(f.against), f.against);
  }
  if (f.ablate) {
    const auto all = ablate(catalog, groups);
    put("", f.format == "json" ? validation_json(all.front().second, all) : ablation_text(all));
    return;
  }
  const Validation v = validate(catalog, groups);
  put("", f.format == "json" ? validation_json(v) : validation_text(v, f.detail));
}

}  // namespace

void add_validate(CLI::App& app, int&) {
  CLI::App* sub = app.add_subcommand("validate", "how well predictions order and meet published measurements");
  sub->footer(
      "\nregret: measured time of the layout predicted fastest over that of the fastest (1 is perfect)\n"
      "tau: rank correlation; MAPE: error once one row of a subgroup has set the level; level: error with nothing fitted\n"
      "\nExamples:\n  hpplan validate\n  hpplan validate --ablate\n  hpplan validate --against mine.yaml --format json\n");
  auto f = std::make_shared<ValidateFlags>();
  sub->add_option("--against", f->against, "a measurement file (default: the published groups that come along)");
  sub->add_flag("--ablate", f->ablate, "the figures with each part of the model switched off");
  sub->add_flag("--detail", f->detail, "every row, measured and predicted");
  sub->add_option("--format", f->format, "table or json")->check(CLI::IsMember({"table", "json"}));
  sub->add_option("--data-dir", f->data_dir)->envname("HPPLAN_DATA_DIR");
  sub->callback([f] { run(*f); });
}

}  // namespace hpplan::tools
