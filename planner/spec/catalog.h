// Catalog: names -> data files. The files of the repository are inside the binary; a data directory of the
// same layout (profiles/models/*.yaml, topologies/*.yaml, ...) adds files and takes the place of those with
// the same name. Files are parsed only when asked for.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hpplan {

enum class DataKind : std::uint8_t { kModel, kEngine, kDevice, kFabric, kMeasurements, kTopology };
inline constexpr int kDataKinds = 6;
std::string_view to_string(DataKind kind);  // "model", "engine", ...

class Catalog {
 public:
  // data_dir "": the embedded files alone. Throws InputError when data_dir is no directory.
  explicit Catalog(const std::string& data_dir = "");

  struct Entry {
    std::string name;  // without folder and ending
    std::string file;  // for error texts: the path, or "topologies/x.yaml" for an embedded file
    std::string text;
  };

  // By name, by an alias that a file lists under `aliases`, or by path (a '/' in it, or ending in .yaml or
  // .json). Throws InputError with the nearest name and the command that lists them.
  Entry find(DataKind kind, const std::string& name) const;
  // All names of a kind, sorted.
  std::vector<std::string> names(DataKind kind) const;
  // Every file of a kind, sorted by name.
  std::vector<Entry> all(DataKind kind) const;

 private:
  struct File {
    std::string file;
    std::optional<std::string_view> embedded;  // else read from disk when asked for
  };
  Entry load(const std::string& name, const File& file) const;
  std::map<std::string, File> files_[kDataKinds];
};

}  // namespace hpplan
