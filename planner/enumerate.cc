#include "planner/enumerate.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "planner/spec/error.h"

namespace hpplan {
namespace {

bool neuron(const Topology& topology) {
  return topology.group_rule == GroupRule::kNeuronTorus ||
         topology.group_rule == GroupRule::kNeuronTrn1;
}

// Ways to take counts of levels[from..] whose product is n.
void products(const Topology& topology, std::size_t from, int n, std::vector<int>& taken,
              std::vector<Slice>& out) {
  if (from == topology.levels.size()) {
    if (n == 1) out.push_back({taken, 0, 0});
    return;
  }
  for (int count = 1; count <= std::min(n, topology.levels[from].size); ++count) {
    if (n % count != 0) continue;
    taken[from] = count;
    products(topology, from + 1, n / count, taken, out);
  }
}

// Inner levels are whole wherever an outer one has more than one member in use.
bool consecutive(const Topology& topology, const Slice& slice) {
  bool outer_used = false;
  for (std::size_t l = 0; l < slice.taken.size(); ++l) {
    if (outer_used && slice.taken[l] != topology.levels[l].size) return false;
    outer_used = outer_used || slice.taken[l] > 1;
  }
  return true;
}

std::vector<int> divisors(int n) {
  std::vector<int> small, large;
  for (int d = 1; static_cast<std::int64_t>(d) * d <= n; ++d) {
    if (n % d != 0) continue;
    small.push_back(d);
    if (d != n / d) large.push_back(n / d);
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

void factor(int n, const std::vector<Axis>& axes, std::size_t at, Degrees& degrees,
            std::vector<Degrees>& out) {
  if (at + 1 == axes.size()) {
    degrees[axes[at]] = n;
    out.push_back(degrees);
    return;
  }
  for (const int d : divisors(n)) {
    degrees[axes[at]] = d;
    factor(n / d, axes, at + 1, degrees, out);
  }
}

}  // namespace

std::vector<int> useful_counts(const Topology& topology, int heads) {
  const int devices = topology.devices();
  std::set<int> counts;
  for (int n = 1; n <= std::min(devices, 16); ++n)
    if (!neuron(topology) || (n & (n - 1)) == 0) counts.insert(n);
  // Whole children of each level: chips, nodes, rows.
  int inner = devices;
  for (const Level& level : topology.levels) {
    inner /= level.size;
    if (inner == 1 && topology.levels.size() > 1) continue;
    const int members = devices / inner;
    for (int k = 1; k <= members; ++k) {
      if (k > 256) k = std::min(members, 2 * k - 2);  // doubling from here on
      const int n = k * inner;
      const bool even_heads = heads % n == 0 || (n % heads == 0 && n <= 2 * heads);
      const bool round =
          devices % n == 0 || (!neuron(topology) && n % 8 == 0 && n <= 256);
      if (round || even_heads) counts.insert(n);
    }
  }
  for (int n = devices; n >= 1; n /= 2) {
    counts.insert(n);
    if (n % 2 != 0) break;
  }
  return {counts.begin(), counts.end()};
}

std::vector<Slice> slices_of(const Topology& topology, int devices) {
  HP_CHECK(devices >= 1 && devices <= topology.devices(), devices, " of ",
           topology.devices());
  std::vector<Slice> out;
  std::vector<int> taken(topology.levels.size(), 1);
  products(topology, 0, devices, taken, out);
  if (neuron(topology))
    out.erase(std::remove_if(out.begin(), out.end(),
                             [&](const Slice& s) { return !consecutive(topology, s); }),
              out.end());
  if (!out.empty()) return out;
  // A run of the members of the innermost level that still fits whole.
  const int levels = static_cast<int>(topology.levels.size());
  int inner = topology.devices();
  for (int l = 0; l < levels; ++l) {
    inner /= topology.levels[l].size;
    if (devices % inner != 0) continue;
    Slice flat = whole(topology);
    flat.flat_levels = l + 1;
    flat.flat_count = devices / inner;
    return {flat};
  }
  HP_CHECK(false, devices, " devices of ", topology.name, " are no slice");
  return out;
}

std::vector<DigitSpace> spaces_of(const Topology& topology, const Slice& slice) {
  const DigitSpace plain(topology, slice);
  std::vector<std::vector<std::vector<int>>> orders(1);
  for (int l = 0; l < static_cast<int>(plain.levels().size()); ++l) {
    std::vector<int> primes;
    for (const Digit& d : plain.digits())
      if (d.level == l) primes.push_back(d.radix);
    std::sort(primes.begin(), primes.end());
    std::vector<std::vector<int>> permutations;
    do {
      permutations.push_back(primes);
    } while (std::next_permutation(primes.begin(), primes.end()) &&
             permutations.size() < 24);
    // Members of a switch, a mesh or a chip are alike: the order of primes changes names
    // only. On large tori one order is enough work.
    const LinkKind kind = topology.levels[plain.levels()[l].first].kind;
    if (!plain.levels()[l].merged && kind != LinkKind::kRing &&
        kind != LinkKind::kGraph) {
      std::sort(primes.rbegin(), primes.rend());
      permutations = {primes};
    }
    std::vector<std::vector<std::vector<int>>> more;
    for (const auto& order : orders)
      for (const auto& permutation : permutations) {
        more.push_back(order);
        more.back().push_back(permutation);
      }
    orders = std::move(more);
    if (orders.size() > 64) orders.resize(64);
  }
  std::vector<DigitSpace> spaces;
  for (const auto& order : orders) spaces.emplace_back(topology, slice, order);
  return spaces;
}

std::vector<int> digit_classes(const Topology& topology, const DigitSpace& space) {
  std::map<std::tuple<int, int, double, int>, int> known;
  std::vector<int> classes;
  for (int i = 0; i < static_cast<int>(space.digits().size()); ++i) {
    const Digit& digit = space.digits()[i];
    const DigitSpace::SpaceLevel& level = space.levels()[digit.level];
    const Level& of = topology.levels[level.first];
    std::tuple<int, int, double, int> key;
    if (of.kind == LinkKind::kRing && level.gray && of.size == 4 && of.wrap)
      key = {-1, digit.radix, of.link ? of.link->value : 0, 0};  // links of one hypercube
    else if (level.merged || of.kind == LinkKind::kRing || of.kind == LinkKind::kGraph)
      key = {digit.level, digit.radix, 0, i + 1};  // like no other
    else
      key = {digit.level, digit.radix, 0, 0};
    classes.push_back(known.emplace(key, static_cast<int>(known.size())).first->second);
  }
  return classes;
}

void for_each_placement(const DigitSpace& space, const std::vector<Axis>& axes,
                        const std::function<void(const Placement&)>& visit) {
  const std::size_t digits = space.digits().size();
  std::vector<std::size_t> choice(digits, 0);
  Placement placement;
  for (std::size_t i = 0; i < digits; ++i) placement[axes[0]] |= DigitSet{1} << i;
  for (;;) {
    visit(placement);
    std::size_t i = digits;
    while (i > 0) {
      --i;
      const DigitSet bit = DigitSet{1} << i;
      placement[axes[choice[i]]] &= ~bit;
      choice[i] = (choice[i] + 1) % axes.size();
      placement[axes[choice[i]]] |= bit;
      if (choice[i] != 0) break;
      if (i == 0) return;
    }
    if (digits == 0) return;
  }
}

void for_each_class(const std::vector<Axis>& axes, const std::vector<int>& classes,
                    const std::function<void(const Placement&)>& visit) {
  std::vector<std::vector<int>> members;
  for (int i = 0; i < static_cast<int>(classes.size()); ++i) {
    if (classes[i] >= static_cast<int>(members.size())) members.resize(classes[i] + 1);
    members[classes[i]].push_back(i);
  }
  Placement placement;
  // Digits `from` on of class c go to axes[axis] and later ones, in order.
  const std::function<void(std::size_t, std::size_t, std::size_t)> place =
      [&](std::size_t c, std::size_t axis, std::size_t from) {
        if (c == members.size()) return visit(placement);
        const auto& digits = members[c];
        if (axis + 1 == axes.size()) {
          DigitSet rest = 0;
          for (std::size_t i = from; i < digits.size(); ++i)
            rest |= DigitSet{1} << digits[i];
          placement[axes[axis]] |= rest;
          place(c + 1, 0, 0);
          placement[axes[axis]] &= ~rest;
          return;
        }
        DigitSet taken = 0;
        for (std::size_t count = 0;; ++count) {
          placement[axes[axis]] |= taken;
          place(c, axis + 1, from + count);
          if (from + count == digits.size()) break;
          taken |= DigitSet{1} << digits[from + count];
        }
        placement[axes[axis]] &= ~taken;
      };
  place(0, 0, 0);
}

std::vector<int> class_key(const std::vector<int>& classes, const Placement& placement) {
  int kinds = 0;
  for (const int c : classes) kinds = std::max(kinds, c + 1);
  std::vector<int> key(static_cast<std::size_t>(kinds) * kAxisCount, 0);
  for (const Axis axis : kAxes)
    for (std::size_t i = 0; i < classes.size(); ++i)
      if (placement[axis] >> i & 1)
        ++key[static_cast<std::size_t>(classes[i]) * kAxisCount +
              static_cast<std::size_t>(axis)];
  return key;
}

std::vector<Degrees> factorizations(int n, const std::vector<Axis>& axes) {
  std::vector<Degrees> out;
  Degrees degrees;
  factor(n, axes, 0, degrees, out);
  return out;
}

}  // namespace hpplan
