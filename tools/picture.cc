#include "tools/picture.h"

#include <algorithm>
#include <map>
#include <vector>

namespace hpplan::tools {
namespace {

constexpr int kMostDevices = 128;
constexpr const char kLetters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
constexpr std::size_t kLetterCount = sizeof kLetters - 1;

// How the devices are laid out: `lines` of `cells` of `letters` devices each.
struct Grid {
  int lines = 1, cells = 1, letters = 1;
  std::string line_name, cell_name, letter_name;
};

Grid grid_of(const Topology& topology) {
  std::vector<Level> levels;
  for (const Level& level : topology.levels)
    if (level.size > 1) levels.push_back(level);
  Grid grid;
  if (levels.size() < 2) return grid;
  if (levels.size() > 2) {
    grid.letters = levels.back().size;
    grid.letter_name = levels.back().name;
    levels.pop_back();
  }
  grid.cells = levels.back().size;
  grid.cell_name = levels.back().name;
  levels.pop_back();
  for (const Level& level : levels) {
    grid.lines *= level.size;
    grid.line_name += (grid.line_name.empty() ? "" : ".") + level.name;
  }
  return grid;
}

// The letter of every device, by its place in the machine.
std::string letters_of(const Topology& topology, const Mesh& mesh, Axis axis) {
  std::map<int, std::size_t> place;  // device id -> place
  for (std::size_t i = 0; i < topology.device_ids.size(); ++i)
    place[topology.device_ids[i]] = i;
  std::string text(static_cast<std::size_t>(topology.devices()), '.');
  const auto groups = mesh.groups(axis);
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (const int rank : groups[g]) {
      const int device = mesh.devices()[static_cast<std::size_t>(rank)];
      const auto it = place.find(device);
      const auto at = it != place.end() ? it->second : static_cast<std::size_t>(device);
      if (at < text.size()) text[at] = kLetters[g];
    }
  return text;
}

}  // namespace

std::string placement_picture(const Topology& topology, const Mesh& mesh) {
  const Grid grid = grid_of(topology);
  if (grid.lines < 2 || topology.devices() > kMostDevices) return "";
  std::vector<std::vector<std::string>> blocks;
  for (const Axis axis : kAxes) {
    if (mesh.degrees()[axis] == 1 || mesh.groups(axis).size() > kLetterCount) continue;
    const std::string letters = letters_of(topology, mesh, axis);
    std::vector<std::string> block = {std::string(to_string(axis)) + " groups"};
    for (int line = 0; line < grid.lines; ++line) {
      std::string text;
      for (int cell = 0; cell < grid.cells; ++cell)
        text += (cell > 0 ? " " : "") +
                letters.substr(
                    static_cast<std::size_t>((line * grid.cells + cell) * grid.letters),
                    static_cast<std::size_t>(grid.letters));
      block.push_back(text);
    }
    blocks.push_back(block);
  }
  if (blocks.empty()) return "";
  std::string text = "  where they lie (line: " + grid.line_name +
                     (grid.letters > 1 ? ", word: " : ", letter: ") + grid.cell_name +
                     (grid.letters > 1 ? ", letter: " + grid.letter_name : "") + "):\n";
  for (int line = 0; line <= grid.lines; ++line) {
    std::string row;
    for (const auto& block : blocks) {
      const std::size_t width = std::max(block[0].size(), block[1].size());
      std::string cell = block[static_cast<std::size_t>(line)];
      cell.resize(width, ' ');
      row += "    " + cell;
    }
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + "\n";
  }
  return text;
}

}  // namespace hpplan::tools
