// A rank grid somebody wrote down becomes a mesh, or findings that say why it is none.
#include <algorithm>
#include <set>

#include "planner/check.h"
#include "planner/rules_parts.h"
#include "planner/spec/error.h"

namespace hpplan {
namespace {

using Groups = std::vector<std::vector<int>>;

// Are these every rank of 0..n-1 once? What is wrong goes to findings.
bool partitions(std::vector<Finding>& findings, const std::string& what,
                const Groups& groups, int n) {
  std::vector<int> seen(static_cast<std::size_t>(n), 0);
  std::string wrong;
  const auto say = [&](const std::string& text) {
    wrong += (wrong.empty() ? "" : ", ") + text;
  };
  for (const auto& group : groups)
    for (const int rank : group) {
      if (rank < 0 || rank >= n)
        say(concat("rank ", rank, " is not in 0..", n - 1));
      else if (++seen[static_cast<std::size_t>(rank)] == 2)
        say(concat("rank ", rank, " is listed twice"));
    }
  std::vector<int> missing;
  for (int r = 0; r < n; ++r)
    if (seen[static_cast<std::size_t>(r)] == 0) missing.push_back(r);
  if (!missing.empty()) {
    const std::size_t count = missing.size();
    missing.resize(std::min<std::size_t>(count, 8));
    say(concat(count == 1 ? "rank " : "ranks ", rules::list(missing),
               count > 8 ? ", ..." : "", count == 1 ? " is missing" : " are missing"));
  }
  if (wrong.empty()) return true;
  findings.push_back(rules::error("mesh-partition",
                                  concat(what, " do not partition the ranks: ", wrong),
                                  concat("list every rank of 0..", n - 1, " once")));
  return false;
}

std::vector<int> identity(int n) {
  std::vector<int> ids(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) ids[static_cast<std::size_t>(i)] = i;
  return ids;
}

std::optional<Mesh> mesh_of_grid(std::vector<Finding>& findings, const RankFile& file,
                                 const Degrees& degrees) {
  std::vector<int> wanted, given;
  for (const Axis axis : axes_in_use(degrees)) wanted.push_back(degrees[axis]);
  for (const int size : file.shape)
    if (size != 1) given.push_back(size);
  if (wanted != given)
    throw InputError({file.file}, "",
                     concat("a list nested ", wanted.empty() ? "1" : rules::list(wanted),
                            " was expected for ", degrees.str(),
                            " (replica, cfg, ring, ulysses, "
                            "tp), a list nested ",
                            given.empty() ? "1" : rules::list(given), " was given"));
  const int n = static_cast<int>(file.ranks.size());
  if (!partitions(findings, file.file, {file.ranks}, n)) return std::nullopt;
  return Mesh(degrees, {kAxes.begin(), kAxes.end()}, file.ranks, identity(n));
}

// Two groups of different axes may share one rank: more would mix what one axis cut with
// what the other did.
bool overlap(std::vector<Finding>& findings, const std::map<Axis, Groups>& groups,
             const std::vector<Axis>& axes) {
  for (std::size_t a = 0; a < axes.size(); ++a)
    for (std::size_t b = a + 1; b < axes.size(); ++b)
      for (const auto& one : groups.at(axes[a])) {
        const std::set<int> members(one.begin(), one.end());
        for (const auto& other : groups.at(axes[b])) {
          const auto shared = std::count_if(other.begin(), other.end(),
                                            [&](int r) { return members.count(r) > 0; });
          if (shared < 2) continue;
          findings.push_back(rules::error(
              "mesh-overlap",
              concat("the ", to_string(axes[a]), " group ", rules::groups_text({one}),
                     " and the ", to_string(axes[b]), " group ",
                     rules::groups_text({other}), " share ", shared,
                     " ranks; groups of two axes may share one"),
              concat("stride the ", to_string(axes[b]), " groups by the ",
                     to_string(axes[a]), " degree")));
          return true;
        }
      }
  return false;
}

std::optional<Mesh> mesh_of_groups(std::vector<Finding>& findings, const RankFile& file,
                                   const Degrees& degrees) {
  const std::vector<Axis> axes = axes_in_use(degrees);
  const int n = static_cast<int>(degrees.product());
  for (const auto& [axis, groups] : file.groups)
    for (const auto& group : groups)
      if (static_cast<int>(group.size()) != degrees[axis])
        throw InputError({file.file}, std::string(to_string(axis)),
                         concat("groups of ", degrees[axis], " ranks were expected, ",
                                rules::groups_text({group}), " was given"));
  bool sound = true;
  for (const Axis axis : axes) {
    const auto groups = file.groups.find(axis);
    if (groups == file.groups.end())
      throw InputError({file.file}, std::string(to_string(axis)),
                       concat("its groups were expected (degree ", degrees[axis],
                              "), none were given"));
    sound &= partitions(findings, concat("the ", to_string(axis), " groups"),
                        groups->second, n);
  }
  if (!sound || overlap(findings, file.groups, axes)) return std::nullopt;

  // A rank's coordinate on an axis is its place in its group.
  std::vector<int> ranks(static_cast<std::size_t>(n), -1),
      place(static_cast<std::size_t>(n), 0);
  for (const Axis axis : axes)
    for (const auto& group : file.groups.at(axis))
      for (std::size_t i = 0; i < group.size(); ++i) {
        int& at = place[static_cast<std::size_t>(group[i])];
        at = at * degrees[axis] + static_cast<int>(i);
      }
  for (int r = 0; r < n; ++r) {
    int& taken = ranks[static_cast<std::size_t>(place[static_cast<std::size_t>(r)])];
    if (taken >= 0) {
      findings.push_back(
          rules::error("mesh-partition",
                       concat("ranks ", taken, " and ", r,
                              " stand at the same place of their groups on every axis"),
                       "order the members of all groups of an axis the same way"));
      return std::nullopt;
    }
    taken = r;
  }
  const Mesh mesh(degrees, {kAxes.begin(), kAxes.end()}, ranks, identity(n));
  for (const Axis axis : axes) {
    Groups built = mesh.groups(axis), given = file.groups.at(axis);
    std::sort(built.begin(), built.end());
    std::sort(given.begin(), given.end());
    if (built == given) continue;
    findings.push_back(rules::error(
        "mesh-partition",
        concat("the groups make no grid: by their places the ", to_string(axis),
               " groups would be ", rules::groups_text(built), ", given are ",
               rules::groups_text(given)),
        "order the members of all groups of an axis the same way"));
    return std::nullopt;
  }
  return mesh;
}

}  // namespace

// Axes above degree 1, outermost first.
std::vector<Axis> axes_in_use(const Degrees& degrees) {
  std::vector<Axis> axes;
  for (const Axis axis : kAxes)
    if (degrees[axis] > 1) axes.push_back(axis);
  return axes;
}

std::optional<Mesh> mesh_of_ranks(const RankFile& file, const Degrees& degrees,
                                  std::vector<Finding>& findings) {
  return file.shape.empty() ? mesh_of_groups(findings, file, degrees)
                            : mesh_of_grid(findings, file, degrees);
}

}  // namespace hpplan
