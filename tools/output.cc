#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "planner/spec/plan_yaml.h"
#include "tools/verbs.h"

namespace hpplan::tools {

std::string output_format(const std::string& asked) {
  return !asked.empty() ? asked : isatty(STDOUT_FILENO) ? "table" : "yaml";
}

void put(const std::string& path, const std::string& text) {
  if (!path.empty()) {
    write_file(path, text);
    return;
  }
  std::fwrite(text.data(), 1, text.size(), stdout);
}

bool color(int file_descriptor) {
  return isatty(file_descriptor) && std::getenv("NO_COLOR") == nullptr;
}

}  // namespace hpplan::tools
