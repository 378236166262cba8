// The data files of the repository inside the binary, so that one copied program works anywhere.
#pragma once

#include <string_view>
#include <vector>

namespace hpplan {

struct EmbeddedFile {
  std::string_view path;  // from the repository root: "topologies/trn2.48xl.yaml"
  std::string_view text;
};
const std::vector<EmbeddedFile>& embedded_files();

}  // namespace hpplan
