#include "planner/check.h"

#include <algorithm>
#include <functional>
#include <set>

#include "planner/memory.h"
#include "planner/placement.h"
#include "planner/rules_parts.h"
#include "planner/spec/error.h"

namespace hpplan {
namespace {

using Groups = std::vector<std::vector<int>>;

std::string order_text(const std::vector<Axis>& fastest_first, const Degrees& degrees) {
  std::string text;
  for (const Axis axis : fastest_first)
    if (degrees[axis] > 1)
      text += (text.empty() ? "" : ", ") + std::string(to_string(axis));
  return text.empty() ? "one rank" : "order " + text + " (fastest first)";
}

// Axes above degree 1, outermost first.
std::vector<Axis> axes_in_use(const Degrees& degrees) {
  std::vector<Axis> axes;
  for (const Axis axis : kAxes)
    if (degrees[axis] > 1) axes.push_back(axis);
  return axes;
}

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

// Visits meshes until visit returns true: the engine's default order, every other order,
// every placement of every slice with that many devices. Stops after kMost meshes: a "no"
// then means "not found".
constexpr int kMost = 20000;

void each_placement(const Topology& topology, const Degrees& degrees,
                    const std::function<bool(const Mesh&, const std::string&)>& visit) {
  int visited = 0;
  bool done = false;
  std::vector<int> taken;
  const std::function<void(std::int64_t)> slices = [&](std::int64_t rest) {
    if (done) return;
    if (taken.size() == topology.levels.size()) {
      if (rest != 1) return;
      const DigitSpace space(topology, Slice{taken});
      const auto& digits = space.digits();
      Placement placement;
      Degrees left = degrees;
      const std::function<void(std::size_t)> assign = [&](std::size_t i) {
        if (done) return;
        if (i == digits.size()) {
          if (left.product() != 1) return;
          done = ++visited > kMost ||
                 visit(mesh_of(topology, space, placement),
                       "placement " + to_string(topology, space, placement));
          return;
        }
        for (const Axis axis : kAxes) {
          if (left[axis] % digits[i].radix != 0 || left[axis] == 1) continue;
          left[axis] /= digits[i].radix;
          placement[axis] |= DigitSet{1} << i;
          assign(i + 1);
          placement[axis] &= ~(DigitSet{1} << i);
          left[axis] *= digits[i].radix;
        }
      };
      assign(0);
      return;
    }
    const int size = topology.levels[taken.size()].size;
    // Whole levels first: the machine as it is before slices of it.
    for (int n = size; n >= 1; --n) {
      if (rest % n != 0) continue;
      taken.push_back(n);
      slices(rest / n);
      taken.pop_back();
    }
  };
  slices(degrees.product());
}

void find_mesh(const Problem& problem, const CheckRequest& request, CheckResult& result) {
  const Degrees& d = request.degrees;
  std::optional<Mesh> first;
  std::string first_from;
  std::vector<Finding> first_findings;
  int tried = 0;
  const auto visit = [&](const Mesh& mesh, const std::string& from) {
    ++tried;
    std::vector<Finding> findings = check_mesh(problem, mesh, request.ring_method);
    const bool fits = legal(findings);
    if (fits || !first) {
      first = mesh;
      first_from = from;
      first_findings = std::move(findings);
    }
    return fits;
  };
  std::vector<Axis> order = problem.engine.rank_order;
  bool found = visit(Mesh::from_order(d, order), order_text(order, d));
  std::vector<Axis> axes = axes_in_use(d);
  std::sort(axes.begin(), axes.end());
  if (!found && axes.size() > 1) {
    do {
      found = visit(Mesh::from_order(d, axes), order_text(axes, d));
    } while (!found && std::next_permutation(axes.begin(), axes.end()));
  }
  if (!found)
    each_placement(problem.topology, d, [&](const Mesh& mesh, const std::string& from) {
      found = visit(mesh, from);
      return found;
    });
  result.mesh = std::move(first);
  result.mesh_from = first_from;
  if (!found && !first_findings.empty())
    first_findings.front().message += concat(" (", first_from, "; the other ", tried - 1,
                                             " orders and placements are refused too)");
  result.findings.insert(result.findings.end(), first_findings.begin(),
                         first_findings.end());
}

}  // namespace

std::vector<Axis> parse_order(const std::string& text) {
  std::vector<Axis> order;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string name = text.substr(begin, end - begin);
    const std::optional<Axis> axis = axis_from(name);
    if (!axis)
      throw InputError(
          {"--order"}, "",
          concat(
              "axes of tp, ulysses, ring, cfg, replica, fastest first, were expected, '",
              name, "' was given",
              did_you_mean(name, {"tp", "ulysses", "ring", "cfg", "replica"})));
    if (std::find(order.begin(), order.end(), *axis) != order.end())
      throw InputError({"--order"}, "", concat(name, " is named twice"));
    order.push_back(*axis);
    begin = end + 1;
  }
  return order;
}

CheckResult check_layout(const Problem& problem, const CheckRequest& request) {
  HP_CHECK(
      request.order.has_value() + request.ranks.has_value() + request.mesh.has_value() <=
          1,
      "one mesh");
  const Degrees& d = request.mesh ? request.mesh->degrees() : request.degrees;
  CheckResult result;
  result.findings = check_degrees(problem, d, request.ring_method);
  const std::int64_t product = d.product();
  if (request.devices && *request.devices != product)
    result.findings.push_back(rules::error(
        "world-size",
        concat(d.str(), " makes ", product, " ranks, and ", *request.devices,
               " are started"),
        concat("start ", product, ", or degrees whose product is ", *request.devices)));
  if (request.ranks) {
    result.mesh_from = request.ranks->file;
    result.mesh = request.ranks->shape.empty()
                      ? mesh_of_groups(result.findings, *request.ranks, d)
                      : mesh_of_grid(result.findings, *request.ranks, d);
  } else if (request.mesh) {
    result.mesh = request.mesh;
    result.mesh_from = "plan";
  } else if (product <= problem.topology.devices()) {
    if (request.order) {
      result.mesh = Mesh::from_order(d, *request.order);
      result.mesh_from = order_text(*request.order, d);
    } else if (auto own = engine_mesh(problem, d)) {
      result.mesh = std::move(own);
      result.mesh_from = concat("the rank order of ", problem.engine.name);
    } else {
      find_mesh(problem, request, result);
    }
  }
  const bool found =
      !request.ranks && !request.mesh && !request.order && problem.engine.explicit_mesh;
  if (result.mesh && !found)
    for (Finding& f : check_mesh(problem, *result.mesh, request.ring_method))
      result.findings.push_back(std::move(f));
  result.split = split_of(problem, d, request.ring_method);
  if (result.split) {
    result.memory = estimate_memory(problem, d, request.ring_method, *result.split);
    for (Finding& f : check_memory(problem, d, request.ring_method, *result.memory))
      result.findings.push_back(std::move(f));
  }
  result.legal = legal(result.findings);
  return result;
}

}  // namespace hpplan
