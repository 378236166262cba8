#include "tools/tune_files.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "planner/spec/error.h"
#include "planner/spec/plan_yaml.h"
#include "planner/spec/yaml_reader.h"
#include "tools/adapters/embedded.h"

namespace hpplan::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWords = "tune.args";
constexpr const char* kMeasured = ".measured.yaml";  // NAME.1.measured.yaml, NAME.2....

// "01-tp2-ulysses4": a name that shells take as it is.
std::string name_of(std::size_t place, const Contender& c) {
  std::string name = fmt::format("{:02}", place + 1);
  for (const Axis axis : kAxes)
    if (c.plan.chosen.mesh.degrees()[axis] > 1)
      name += fmt::format("-{}{}", to_string(axis), c.plan.chosen.mesh.degrees()[axis]);
  if (c.plan.chosen.mesh.degrees().ring() > 1)
    name += fmt::format("-{}", to_string(c.plan.chosen.ring_method));
  return name;
}

// clang-format off
constexpr const char* kScript = R"sh(#!/bin/sh
# Measures the plans beside this script, ROUNDS times each and interleaved. What is measured already is left
# alone, so it can be started again. By default hprun starts the ranks on this host; elsewhere say how:
#   LAUNCH='srun --ntasks $RANKS' ./run.sh
#   LAUNCH='torchrun --no-python --nnodes 2 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint head:29400' ./run.sh
# Another engine: HPRUN='python3 its_measurer.py'. It is given PLAN --measure FILE.@ADAPTER_NOTE@
set -u
cd "$(dirname "$0")" || exit 2
: "${ROUNDS:=2}" "${LAUNCH:=}"@ADAPTER_PYTHON@
: "${HPRUN:=@RUNNER@}"
measure() {  # NAME RANKS ROUND
  out="$1.$3.measured.yaml"
  [ -f "$out" ] && return
  export RANKS="$2"
  echo "== $1, run $3" >&2
  if [ -n "$LAUNCH" ]; then
    sh -c "$LAUNCH $HPRUN $1.yaml --measure $out @STEPS@"
  else
    $HPRUN "$1.yaml" --nproc "$2" --measure "$out" @STEPS@
  fi
  code=$?
  [ -f "$out" ] && return
  hash=$(sed -n 's/^hash: //p' "$1.yaml")
  printf 'hpplan_measurement: 1\nerror: exit code %s\nplan_hash: %s\n' "$code" "$hash" >"$out"
}
round=1
while [ "$round" -le "$ROUNDS" ]; do
  if [ $((round % 2)) -eq 1 ]; then
@FORWARD@  else
@BACKWARD@  fi
  round=$((round + 1))
done
)sh";
// clang-format on

constexpr const char* kAdapterFile = "diffusers_measure.py";

bool has_adapter(const std::vector<Contender>& list) {
  return !list.empty() && list.front().plan.engine.name == "diffusers";
}

std::string script(const std::vector<Contender>& list, int warmup, int iterations) {
  std::string text = kScript;
  std::string forward, backward;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string line =
        fmt::format("    measure {} {} \"$round\"\n", name_of(i, list[i]),
                    list[i].plan.chosen.mesh.size());
    forward += line;
    backward.insert(0, line);
  }
  const auto fill = [&](const std::string& mark, const std::string& value) {
    for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark))
      text.replace(at, mark.size(), value);
  };
  const bool adapter = has_adapter(list);
  fill("@ADAPTER_NOTE@",
       adapter ? "\n# Here it is the one beside this script; MODEL_FOLDER=DIR "
                 "names the transformer (config.json, weights), PYTHON "
                 "its Python."
               : "");
  fill("@ADAPTER_PYTHON@",
       adapter ? " \"${PYTHON:=python3}\" \"${MODEL_FOLDER:=}\"" : "");
  fill("@RUNNER@", adapter ? concat("$PYTHON ", kAdapterFile,
                                    "${MODEL_FOLDER:+ --model $MODEL_FOLDER}")
                           : std::string("hprun"));
  fill("@STEPS@", fmt::format("--warmup {} --iterations {}", warmup, iterations));
  fill("@FORWARD@", forward);
  fill("@BACKWARD@", backward);
  return text;
}

}  // namespace

std::string write_tuning_folder(const std::string& folder,
                                const std::vector<Contender>& list,
                                const std::vector<std::string>& words, int warmup,
                                int iterations) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw InputError({folder}, "", concat("cannot be made: ", error.message()));
  const auto path = [&](const std::string& name) {
    return (fs::path(folder) / name).string();
  };
  for (std::size_t i = 0; i < list.size(); ++i)
    write_file(path(name_of(i, list[i]) + ".yaml"), plan_to_yaml(list[i].plan));
  if (has_adapter(list)) write_file(path(kAdapterFile), kDiffusersMeasure);
  std::string flags;
  for (const std::string& word : words) flags += word + "\n";
  write_file(path(kWords), flags);
  write_file(path("run.sh"), script(list, warmup, iterations));
  chmod(path("run.sh").c_str(), 0755);
  return fmt::format(
      "{} plans and run.sh written to {}; run it where the devices are, then: hpplan "
      "tune "
      "--collect {}\n",
      list.size(), folder, folder);
}

std::vector<std::string> read_tuning_words(const std::string& folder) {
  std::istringstream in(read_text_file((fs::path(folder) / kWords).string()));
  std::vector<std::string> words;
  for (std::string word; std::getline(in, word);) words.push_back(word);
  return words;
}

std::vector<Contender> read_tuning_folder(const std::string& folder,
                                          std::vector<Contender> list) {
  if (!fs::is_directory(folder)) throw InputError({folder}, "", "is not a folder");
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const std::string end = kMeasured;
    if (name.size() > end.size() &&
        name.compare(name.size() - end.size(), end.size(), end) == 0)
      files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  if (files.empty())
    throw InputError({folder}, "",
                     concat("has no measurements (*", kMeasured, "): start its run.sh"));
  for (const std::string& file : files) {
    const Measurement m = read_measurement(file);
    const auto of = std::find_if(list.begin(), list.end(), [&](const Contender& c) {
      return c.plan.hash == m.plan_hash;
    });
    if (of == list.end())
      throw InputError(
          {file}, "plan_hash",
          "is of a plan that these inputs do not give any more (model, machine, rates or "
          "flags changed): write the folder again with --emit");
    of->runs.push_back(m);
  }
  return ranked(std::move(list));
}

}  // namespace hpplan::tools
