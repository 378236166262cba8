#include "planner/check.h"

#include <algorithm>
#include <functional>

#include "planner/memory.h"
#include "planner/placement.h"
#include "planner/rules_parts.h"
#include "planner/spec/error.h"

namespace hpplan {
namespace {

std::string order_text(const std::vector<Axis>& fastest_first, const Degrees& degrees) {
  std::string text;
  for (const Axis axis : fastest_first)
    if (degrees[axis] > 1)
      text += (text.empty() ? "" : ", ") + std::string(to_string(axis));
  return text.empty() ? "one rank" : "order " + text + " (fastest first)";
}

// A "no" after so many meshes means "not found".
constexpr int kMost = 20000;

// Every slice of the machine with that many devices: whole levels before parts of them,
// irregular runs of the outer levels last.
std::vector<Slice> slices_of(const Topology& topology, std::int64_t devices) {
  std::vector<Slice> slices;
  std::vector<int> taken;
  const std::size_t levels = topology.levels.size();
  const std::function<void(std::int64_t, int, int)> fill =
      [&](std::int64_t rest, int flat_levels, int flat_count) {
        if (taken.size() == levels) {
          if (rest == 1) slices.push_back({taken, flat_levels, flat_count});
          return;
        }
        for (int n = topology.levels[taken.size()].size; n >= 1; --n) {
          if (rest % n != 0) continue;
          taken.push_back(n);
          fill(rest / n, flat_levels, flat_count);
          taken.pop_back();
        }
      };
  fill(devices, 0, 0);
  for (std::size_t flat = 2; flat < levels; ++flat) {
    int members = 1;
    taken.clear();
    for (std::size_t l = 0; l < flat; ++l) {
      members *= topology.levels[l].size;
      taken.push_back(1);
    }
    for (int n = std::min<int>(members, 1 << 12); n > 1; --n)
      if (devices % n == 0) fill(devices / n, static_cast<int>(flat), n);
  }
  return slices;
}

// The order in which a ring of this placement walks over links; empty: digit order.
std::vector<int> ring_turn(const Fabric& fabric, const DigitSpace& space,
                           const Placement& placement) {
  if (fabric.accepts_any_group() || space.degree(placement[Axis::kRing]) < 3) return {};
  const std::vector<int> group = space.groups(placement[Axis::kRing]).front();
  const auto walk = fabric.ring_order(group);
  if (!walk) return {};
  std::vector<int> turn;
  for (const int device : *walk)
    turn.push_back(
        static_cast<int>(std::find(group.begin(), group.end(), device) - group.begin()));
  return turn;
}

// Visits the meshes of all placements until visit returns true.
void each_placement(const Problem& problem, const Degrees& degrees, RingMethod method,
                    const std::function<bool(const Mesh&, const std::string&)>& visit) {
  const Topology& topology = problem.topology;
  int visited = 0;
  bool done = false;
  for (const Slice& slice : slices_of(topology, degrees.product())) {
    const DigitSpace space(topology, slice);
    const auto& digits = space.digits();
    Placement placement;
    Degrees left = degrees;
    const std::function<void(std::size_t)> assign = [&](std::size_t i) {
      if (done) return;
      if (i == digits.size()) {
        std::vector<int> turn;
        if (method == RingMethod::kP2p)
          turn = ring_turn(*problem.fabric, space, placement);
        done = ++visited > kMost ||
               visit(mesh_of(topology, space, placement, turn),
                     "placement " + to_string(topology, space, placement));
        return;
      }
      for (const Axis axis : kAxes) {
        if (left[axis] == 1 || left[axis] % digits[i].radix != 0) continue;
        left[axis] /= digits[i].radix;
        placement[axis] |= DigitSet{1} << i;
        assign(i + 1);
        placement[axis] &= ~(DigitSet{1} << i);
        left[axis] *= digits[i].radix;
      }
    };
    assign(0);
    if (done) return;
  }
}

void find_mesh(const Problem& problem, const CheckRequest& request, CheckResult& result) {
  const Degrees& d = request.degrees;
  std::optional<Mesh> first;
  std::string first_from;
  std::vector<Finding> first_findings;
  int tried = 0;
  const auto visit = [&](const Mesh& mesh, const std::string& from) {
    ++tried;
    std::vector<Finding> findings = check_mesh(problem, mesh, result.ring_method);
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
    each_placement(problem, d, result.ring_method,
                   [&](const Mesh& mesh, const std::string& from) {
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

// A mesh of the same degrees that is legal where the given one is not. Fixes of single
// axes do not know of each other; this one holds for all.
std::string legal_mesh(const Problem& problem, const CheckRequest& request,
                       const Degrees& degrees, RingMethod method) {
  CheckResult other;
  other.ring_method = method;
  if (auto own = engine_mesh(problem, degrees)) {
    other.findings = check_mesh(problem, *own, method);
    other.mesh_from = concat("the rank order of ", problem.engine.name);
  } else {
    CheckRequest open = request;
    open.degrees = degrees;
    find_mesh(problem, open, other);
  }
  return legal(other.findings)
             ? concat(degrees.str(), " is legal with ", other.mesh_from)
             : concat("no legal mesh of ", degrees.str(), " was found here; other degrees may have one");
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
  const bool has_p2p = problem.engine.ring_p2p || !problem.engine.ring_allgather;
  result.ring_method =
      request.ring_method.value_or(has_p2p ? RingMethod::kP2p : RingMethod::kAllGather);
  result.findings = check_degrees(problem, d, result.ring_method);
  if (rules::refuse_size(problem, d))
    return result;  // check_degrees said so, and nothing more can be counted
  const std::int64_t product = d.product();
  if (request.devices && *request.devices != product)
    result.findings.push_back(rules::error(
        "world-size",
        concat(d.str(), " makes ", product, " ranks, and ", *request.devices,
               " are started"),
        concat("start ", product, ", or degrees whose product is ", *request.devices)));
  if (product > problem.topology.devices()) {
    // check_degrees has said it; there is no mesh to judge.
  } else if (request.ranks) {
    result.mesh_from = request.ranks->file;
    result.mesh = mesh_of_ranks(*request.ranks, d, result.findings);
  } else if (request.mesh) {
    result.mesh = request.mesh;
    result.mesh_from = "plan";
  } else {
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
  if (result.mesh && !found) {
    std::vector<Finding> findings = check_mesh(problem, *result.mesh, result.ring_method);
    const bool given = request.ranks || request.mesh || request.order;
    if (given && !legal(findings))
      result.instead = legal_mesh(problem, request, d, result.ring_method);
    for (Finding& f : findings) result.findings.push_back(std::move(f));
  }
  result.split = split_of(problem, d, result.ring_method);
  if (result.split) {
    result.memory = estimate_memory(problem, d, result.ring_method, *result.split);
    for (Finding& f : check_memory(problem, d, result.ring_method, *result.memory))
      result.findings.push_back(std::move(f));
  }
  result.legal = legal(result.findings);
  return result;
}

}  // namespace hpplan
