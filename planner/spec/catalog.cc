#include "planner/spec/catalog.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "planner/spec/catalog_data.h"
#include "planner/spec/error.h"
#include "planner/spec/yaml_reader.h"

namespace hpplan {
namespace {

constexpr std::array<std::string_view, kDataKinds> kNames = {"model", "engine", "device", "fabric",
                                                             "measurements", "topology"};
constexpr std::array<std::string_view, kDataKinds> kPlurals = {"models", "engines", "devices", "fabrics",
                                                               "measurements", "topologies"};
constexpr std::array<std::string_view, kDataKinds> kFolders = {
    "profiles/models",          "profiles/engines",      "profiles/devices",
    "profiles/devices/fabrics", "profiles/measurements", "topologies"};

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// The names under `aliases: [..]` of a data file, without parsing the whole of it: the first lines of a file
// hold it, and 60 files are looked through for a name that is no file's own.
std::vector<std::string> aliases_of(std::string_view text) {
  std::size_t line = 0;
  while (line < text.size()) {
    const std::size_t end = std::min(text.find('\n', line), text.size());
    const std::string_view content = text.substr(line, end - line);
    if (content.substr(0, 8) == "aliases:") {
      std::vector<std::string> names;
      std::string name;
      for (const char c : content.substr(8)) {
        if (c == '[' || c == ']' || c == ',' || c == ' ' || c == '"' || c == '\'' || c == '\r') {
          if (!name.empty()) names.push_back(name);
          name.clear();
        } else {
          name += c;
        }
      }
      if (!name.empty()) names.push_back(name);
      return names;
    }
    line = end + 1;
  }
  return {};
}

}  // namespace

std::string_view to_string(DataKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

Catalog::Catalog(const std::string& data_dir) {
  for (const EmbeddedFile& embedded : embedded_files()) {
    for (int kind = 0; kind < kDataKinds; ++kind) {
      const std::string_view folder = kFolders[static_cast<std::size_t>(kind)];
      if (embedded.path.substr(0, folder.size()) != folder || embedded.path[folder.size()] != '/') continue;
      const std::string_view name = embedded.path.substr(folder.size() + 1);
      if (name.find('/') != std::string_view::npos) continue;
      files_[kind][std::string(name.substr(0, name.size() - 5))] = {std::string(embedded.path), embedded.text};
    }
  }
  if (data_dir.empty()) return;
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_directory(data_dir, error))
    throw InputError({data_dir}, "", "is no directory; --data-dir names a folder with profiles/ and topologies/");
  for (int kind = 0; kind < kDataKinds; ++kind) {
    const fs::path folder = fs::path(data_dir) / kFolders[static_cast<std::size_t>(kind)];
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
      if (ends_with(it->path().string(), ".yaml"))
        files_[kind][it->path().stem().string()] = {it->path().string(), std::nullopt};
  }
}

Catalog::Entry Catalog::load(const std::string& name, const File& file) const {
  return {name, file.file, file.embedded ? std::string(*file.embedded) : read_text_file(file.file)};
}

Catalog::Entry Catalog::find(DataKind kind, const std::string& name) const {
  const auto& files = files_[static_cast<std::size_t>(kind)];
  if (const auto it = files.find(name); it != files.end()) return load(it->first, it->second);
  if (name.find('/') != std::string::npos || ends_with(name, ".yaml") || ends_with(name, ".json")) {
    std::string stem = std::filesystem::path(name).stem().string();
    return {std::move(stem), name, read_text_file(name)};
  }
  std::vector<std::string> known;
  for (const auto& [own, file] : files) {
    Entry entry = load(own, file);
    known.push_back(own);
    for (std::string& alias : aliases_of(entry.text)) {
      if (alias == name) return entry;
      known.push_back(std::move(alias));
    }
  }
  const std::string_view plural = kPlurals[static_cast<std::size_t>(kind)];
  throw InputError(concat("no ", to_string(kind), " named '", name.substr(0, 80), "'", did_you_mean(name, known),
                          " (hpplan list ", plural, " names them; a path to a file is taken too)"));
}

std::vector<std::string> Catalog::names(DataKind kind) const {
  std::vector<std::string> all;
  for (const auto& [name, file] : files_[static_cast<std::size_t>(kind)]) all.push_back(name);
  return all;
}

std::vector<Catalog::Entry> Catalog::all(DataKind kind) const {
  std::vector<Entry> entries;
  for (const auto& [name, file] : files_[static_cast<std::size_t>(kind)]) entries.push_back(load(name, file));
  return entries;
}

}  // namespace hpplan
