// Refusals of groups, with the nearest partition that would be accepted.
#include <algorithm>
#include <set>

#include "planner/fabric_impl.h"
#include "planner/spec/error.h"

namespace hpplan {
namespace {

// "[0-3,12-15]": runs shortened.
std::string text(const std::vector<int>& values) {
  std::string out = "[";
  std::size_t runs = 0;
  for (std::size_t i = 0; i < values.size(); ++runs) {
    if (runs == 8) return out + ",...]";
    std::size_t j = i;
    while (j + 1 < values.size() && values[j + 1] == values[j] + 1) ++j;
    if (i > 0) out += ',';
    out += std::to_string(values[i]);
    if (j > i + 1) out += concat('-', values[j]);
    if (j == i + 1) out += concat(',', values[j]);
    i = j + 1;
  }
  return out + ']';
}

std::string text(const std::vector<std::vector<int>>& groups) {
  std::string out;
  for (std::size_t i = 0; i < groups.size() && i < 3; ++i)
    out += concat(i > 0 ? " " : "", text(groups[i]));
  return groups.size() > 3 ? out + " ..." : out;
}

Finding refusal(std::string code, std::string message, std::string suggestion,
                const std::vector<int>& group) {
  Finding f;
  f.code = std::move(code);
  f.message = std::move(message);
  f.suggestion = std::move(suggestion);
  f.details["group"] = text(group);
  return f;
}

// Sizes an eager all-to-all takes on trn2.
bool eager_size(int n) { return n == 4 || n == 8 || n == 16 || (n > 0 && n % 32 == 0); }

int nearest_eager_size(int n) {
  int best = 4;
  for (const int size : {4, 8, 16, std::max(32, n / 32 * 32), n / 32 * 32 + 32})
    if (std::abs(size - n) < std::abs(best - n)) best = size;
  return best;
}

class Alternatives {
 public:
  Alternatives(const Fabric& fabric, const Topology& topology, std::vector<int> used)
      : fabric_(fabric), topology_(topology), used_(std::move(used)) {}

  bool routable(const std::vector<std::vector<int>>& groups) const {
    return std::all_of(groups.begin(), groups.end(),
                       [&](const auto& g) { return fabric_.routable(g); });
  }
  std::vector<std::vector<int>> runs(int n) const {
    std::vector<std::vector<int>> groups;
    for (std::size_t i = 0; i + n <= used_.size(); i += n)
      groups.emplace_back(used_.begin() + i, used_.begin() + i + n);
    return groups;
  }
  std::string say(Axis axis, int n) const {
    if (used_.size() % n == 0 && routable(runs(n)))
      return concat("make ", to_string(axis), " the fastest-varying axis: groups ",
                    text(runs(n)));
    if (const auto space = slice()) {
      for (DigitSet set = 1; set <= space->all(); ++set) {
        if (space->degree(set) != n || !routable(space->groups(set))) continue;
        Placement placement;
        placement[axis] = set;
        return concat("the placement ", to_string(topology_, *space, placement),
                      ": groups ", text(space->groups(set)));
      }
    }
    int nearest = 1;
    for (int size = 2; size <= static_cast<int>(used_.size()); ++size)
      if (used_.size() % size == 0 && std::abs(size - n) < std::abs(nearest - n) &&
          routable(runs(size)))
        nearest = size;
    return concat(to_string(axis), ' ', nearest);
  }

 private:
  // The used devices as a slice from the first of each level on; nullopt when they are
  // none.
  std::optional<DigitSpace> slice() const {
    Slice slice;
    int stride = topology_.devices(), product = 1;
    for (const Level& level : topology_.levels) {
      stride /= level.size;
      std::set<int> positions;
      for (const int d : used_) positions.insert(d / stride % level.size);
      slice.taken.push_back(static_cast<int>(positions.size()));
      product *= slice.taken.back();
    }
    if (product != static_cast<int>(used_.size())) return std::nullopt;
    DigitSpace space(topology_, slice);
    if (space.device_indices() != used_ || space.digits().size() > 12)
      return std::nullopt;
    return space;
  }

  const Fabric& fabric_;
  const Topology& topology_;
  std::vector<int> used_;
};

}  // namespace

bool Fabric::routable(const std::vector<int>& group) const {
  return impl_->why_not_routable(group).empty();
}

std::optional<std::vector<int>> Fabric::ring_order(const std::vector<int>& group,
                                                   bool* exhausted) const {
  return impl_->ring_walk(group, exhausted);
}

std::vector<int> Fabric::ring_turn(const DigitSpace& space, DigitSet set) const {
  if (space.degree(set) < 3) return {};
  bool graph = false;
  for (const Level& level : impl_->topology.levels)
    graph = graph || level.kind == LinkKind::kGraph;
  if (!impl_->torus() && !graph) return {};
  const auto groups = space.groups(set);
  const auto walk = impl_->ring_walk(groups.front(), nullptr);
  if (!walk) return {};
  std::vector<int> turn;
  for (const int device : *walk)
    turn.push_back(
        static_cast<int>(std::find(groups.front().begin(), groups.front().end(), device) -
                         groups.front().begin()));
  // One turn for all groups: it must be a walk in each of them.
  if (impl_->torus())
    for (const auto& group : groups)
      for (std::size_t i = 0; i < turn.size(); ++i) {
        const int a = impl_->chip(group[turn[i]]);
        const int b = impl_->chip(group[turn[(i + 1) % turn.size()]]);
        const int l =
            impl_->divergence(group[turn[i]], group[turn[(i + 1) % turn.size()]]);
        if (a != b && l >= impl_->ring_first && !impl_->adjacent(a, b)) return {};
      }
  return turn;
}

bool Fabric::accepts_any_group() const {
  return impl_->topology.group_rule == GroupRule::kAny ||
         impl_->topology.group_rule == GroupRule::kTpuTorus;
}

std::optional<Finding> Fabric::refuse(Collective op, Axis axis,
                                      const std::vector<std::vector<int>>& groups,
                                      FabricRules rules, int world,
                                      bool with_text) const {
  if (accepts_any_group() || groups.empty() || groups.front().size() < 2)
    return std::nullopt;
  const int n = static_cast<int>(groups.front().size());
  const std::string what = concat(to_string(axis), ' ', n);
  std::vector<int> used;
  for (const auto& group : groups) used.insert(used.end(), group.begin(), group.end());
  std::sort(used.begin(), used.end());
  HP_CHECK(static_cast<int>(used.size()) == world, used.size(),
           " devices in groups, world ", world);
  const auto alternatives = [&] { return Alternatives(*this, impl_->topology, used); };
  const auto without_text = [](const char* code) {
    Finding f;
    f.code = code;
    return f;
  };

  for (const auto& group : groups) {
    const std::string why = impl_->why_not_routable(group);
    if (!why.empty() && !with_text) return without_text("fabric-routable");
    if (!why.empty())
      return refusal("fabric-routable",
                     concat(what, ": the group ", text(group), " is not routable: ", why),
                     alternatives().say(axis, n), group);
  }
  if (op == Collective::kShift && impl_->torus()) {
    for (const auto& group : groups)
      for (int i = 0; i < n; ++i) {
        const int from = group[i], to = group[(i + 1) % n];
        const int a = impl_->chip(from), b = impl_->chip(to);
        if (a == b || impl_->divergence(from, to) < impl_->ring_first ||
            impl_->adjacent(a, b))
          continue;
        if (!with_text) return without_text("fabric-routable");
        const auto walk = impl_->ring_walk(group, nullptr);
        return refusal("fabric-routable",
                       concat(what, ": passing K/V round ", text(group),
                              " in this order steps from chip ", a, " to chip ", b,
                              ", which have no link"),
                       walk ? concat("the order ", text(*walk)) : "method allgather",
                       group);
      }
  }
  const bool eager = impl_->topology.has_fabric_rules && rules != FabricRules::kCompiled;
  if (op != Collective::kAllToAll || !eager) return std::nullopt;
  if (!eager_size(n) && !with_text) return without_text("fabric-aligned");
  if (!eager_size(n))
    return refusal("fabric-aligned",
                   concat(what,
                          ": an eager all-to-all takes groups of 4, 8, 16 or a multiple "
                          "of 32 ranks, not ",
                          n),
                   concat(to_string(axis), ' ', nearest_eager_size(n),
                          ", or --fabric-rules compiled"),
                   groups.front());
  for (const auto& group : groups) {
    // Ranks of the job, not device numbers: rank i is the i-th used device.
    std::vector<int> ranks;
    for (const int d : group)
      ranks.push_back(
          static_cast<int>(std::lower_bound(used.begin(), used.end(), d) - used.begin()));
    std::sort(ranks.begin(), ranks.end());
    const bool run = ranks.back() - ranks.front() == n - 1;
    if (run && ranks.front() % n == 0) continue;
    if (!with_text) return without_text("fabric-aligned");
    const auto fix = alternatives().runs(n);
    return refusal(
        "fabric-aligned",
        run ? concat(what, ": the group ", text(ranks), " starts at ", ranks.front(),
                     ", no multiple of ", n, "; an eager all-to-all wants aligned runs")
            : concat(what, ": the group ", text(ranks),
                     " is no run of consecutive ranks; an eager all-to-all wants aligned "
                     "runs"),
        alternatives().routable(fix)
            ? concat("make ", to_string(axis), " the fastest-varying axis: groups ",
                     text(fix), "; or --fabric-rules compiled")
            : "--fabric-rules compiled",
        group);
  }
  return std::nullopt;
}

}  // namespace hpplan
