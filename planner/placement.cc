#include "planner/placement.h"

#include <algorithm>
#include <numeric>

#include "planner/spec/error.h"

namespace hpplan {
namespace {

std::vector<int> primes_descending(int n) {
  std::vector<int> primes;
  for (int p = 2; static_cast<std::int64_t>(p) * p <= n; ++p)
    for (; n % p == 0; n /= p) primes.push_back(p);
  if (n > 1) primes.push_back(n);
  std::reverse(primes.begin(), primes.end());
  return primes;
}

bool power_of_two(int n) { return (n & (n - 1)) == 0; }

char letter(Axis axis) {
  switch (axis) {
    case Axis::kReplica:
      return 'D';
    case Axis::kCfg:
      return 'C';
    case Axis::kRing:
      return 'R';
    case Axis::kUlysses:
      return 'U';
    case Axis::kTp:
      return 'T';
  }
  return '?';
}

}  // namespace

Slice whole(const Topology& topology) {
  Slice slice;
  for (const Level& level : topology.levels) slice.taken.push_back(level.size);
  return slice;
}

DigitSpace::DigitSpace(const Topology& topology, Slice slice,
                       std::vector<std::vector<int>> orders)
    : slice_(std::move(slice)) {
  const auto& levels = topology.levels;
  HP_CHECK(slice_.taken.size() == levels.size(), slice_.taken.size(), " counts for ",
           levels.size(), " levels");
  HP_CHECK(
      slice_.flat_levels >= 0 && slice_.flat_levels <= static_cast<int>(levels.size()),
      slice_.flat_levels);
  std::vector<int> stride(levels.size(), 1);
  for (int l = static_cast<int>(levels.size()) - 2; l >= 0; --l)
    stride[l] = stride[l + 1] * levels[l + 1].size;

  int first = 0;
  if (slice_.flat_levels > 0) {
    SpaceLevel merged;
    int members = 1;
    for (int l = 0; l < slice_.flat_levels; ++l) {
      merged.name += (l == 0 ? "" : "+") + levels[l].name;
      members *= levels[l].size;
    }
    merged.first = slice_.flat_levels - 1;
    merged.count = slice_.flat_count;
    merged.stride = stride[merged.first];
    merged.merged = slice_.flat_levels > 1;
    HP_CHECK(merged.count >= 1 && merged.count <= members, merged.count, " of ", members);
    levels_.push_back(merged);
    first = slice_.flat_levels;
  }
  for (int l = first; l < static_cast<int>(levels.size()); ++l) {
    SpaceLevel level;
    level.name = levels[l].name;
    level.first = l;
    level.count = slice_.taken[l];
    level.stride = stride[l];
    HP_CHECK(level.count >= 1 && level.count <= levels[l].size, level.name, " ",
             level.count, " of ", levels[l].size);
    level.gray = levels[l].labels == Labels::kGray && power_of_two(level.count);
    levels_.push_back(level);
  }
  for (int l = 0; l < static_cast<int>(levels_.size()); ++l) {
    devices_ *= levels_[l].count;
    std::vector<int> primes = l < static_cast<int>(orders.size()) && !orders[l].empty()
                                  ? orders[l]
                                  : primes_descending(levels_[l].count);
    int weight = levels_[l].count;
    for (const int p : primes) {
      HP_CHECK(p > 1 && weight % p == 0, p, " does not divide ", weight);
      weight /= p;
      digits_.push_back({l, p, weight});
    }
    HP_CHECK(weight == 1, "primes of ", levels_[l].name, " leave ", weight);
  }
  HP_CHECK(digits_.size() < 32, digits_.size(), " digits");
}

int DigitSpace::degree(DigitSet set) const {
  int n = 1;
  for (std::size_t i = 0; i < digits_.size(); ++i)
    if (set >> i & 1) n *= digits_[i].radix;
  return n;
}

int DigitSpace::degree_at(DigitSet set, int level) const {
  int n = 1;
  for (std::size_t i = 0; i < digits_.size(); ++i)
    if ((set >> i & 1) && digits_[i].level == level) n *= digits_[i].radix;
  return n;
}

int DigitSpace::device_index(const std::vector<int>& digit_values) const {
  HP_CHECK(digit_values.size() == digits_.size(), digit_values.size(), " values for ",
           digits_.size(), " digits");
  int index = 0;
  std::size_t i = 0;
  for (int l = 0; l < static_cast<int>(levels_.size()); ++l) {
    int label = 0;
    for (; i < digits_.size() && digits_[i].level == l; ++i)
      label += digit_values[i] * digits_[i].weight;
    index += levels_[l].stride * (levels_[l].gray ? label ^ (label >> 1) : label);
  }
  return index;
}

std::vector<std::vector<int>> DigitSpace::line_groups(DigitSet set, int level) const {
  std::vector<int> members = {0}, others = {0};
  for (std::size_t i = 0; i < digits_.size(); ++i) {
    if (digits_[i].level != level) continue;
    std::vector<int>& labels = set >> i & 1 ? members : others;
    std::vector<int> more;
    for (const int label : labels)
      for (int v = 0; v < digits_[i].radix; ++v)
        more.push_back(label + v * digits_[i].weight);
    labels = std::move(more);
  }
  std::vector<std::vector<int>> groups;
  for (const int other : others) {
    groups.emplace_back();
    for (const int member : members) {
      const int label = member + other;
      groups.back().push_back(levels_[level].gray ? label ^ (label >> 1) : label);
    }
  }
  return groups;
}

std::vector<int> DigitSpace::positions(DigitSet set) const {
  std::vector<int> inner(levels_.size(), 1);
  for (std::size_t l = levels_.size(); l-- > 1;)
    inner[l - 1] = inner[l] * levels_[l].count;
  std::vector<int> all = {0};
  for (std::size_t i = 0; i < digits_.size(); ++i) {
    if (!(set >> i & 1)) continue;
    const int weight = digits_[i].weight * inner[digits_[i].level];
    std::vector<int> more;
    more.reserve(all.size() * static_cast<std::size_t>(digits_[i].radix));
    for (const int position : all)
      for (int v = 0; v < digits_[i].radix; ++v) more.push_back(position + v * weight);
    all = std::move(more);
  }
  return all;
}

std::vector<std::vector<int>> DigitSpace::groups(DigitSet set) const {
  std::vector<int> device = {0};  // by position
  for (const SpaceLevel& level : levels_) {
    std::vector<int> more;
    more.reserve(device.size() * static_cast<std::size_t>(level.count));
    for (const int base : device)
      for (int label = 0; label < level.count; ++label)
        more.push_back(base + level.stride * (level.gray ? label ^ (label >> 1) : label));
    device = std::move(more);
  }
  const std::vector<int> members = positions(set);
  const std::vector<int> others = positions(all() & ~set);
  std::vector<std::vector<int>> groups(others.size());
  for (std::size_t g = 0; g < others.size(); ++g) {
    groups[g].reserve(members.size());
    for (const int member : members)
      groups[g].push_back(device[static_cast<std::size_t>(member + others[g])]);
  }
  return groups;
}

std::vector<int> DigitSpace::device_indices() const {
  std::vector<int> all = {0};
  for (const SpaceLevel& level : levels_) {
    std::vector<int> more;
    more.reserve(all.size() * static_cast<std::size_t>(level.count));
    for (const int base : all)
      for (int i = 0; i < level.count; ++i) more.push_back(base + i * level.stride);
    all = std::move(more);
  }
  return all;
}

Degrees degrees_of(const DigitSpace& space, const Placement& placement) {
  Degrees degrees;
  for (const Axis axis : kAxes) degrees[axis] = space.degree(placement[axis]);
  return degrees;
}

std::string to_string(const Topology& topology, const DigitSpace& space,
                      const Placement& placement) {
  HP_CHECK(space.slice().taken.size() == topology.levels.size(), topology.name);
  std::string text;
  int level = -1;
  for (std::size_t i = 0; i < space.digits().size(); ++i) {
    const Digit& digit = space.digits()[i];
    if (digit.level != level) {
      if (!text.empty()) text += ' ';
      text += space.levels()[digit.level].name + ':';
      level = digit.level;
    }
    char c = '-';
    for (const Axis axis : kAxes)
      if (placement[axis] >> i & 1) c = letter(axis);
    text += c;
  }
  return text;
}

Mesh mesh_of(const Topology& topology, const DigitSpace& space,
             const Placement& placement, const std::vector<int>& ring_turn) {
  const Degrees degrees = degrees_of(space, placement);
  HP_CHECK(degrees.product() == space.devices(),
           "the placement leaves digits out: ", degrees.str(), " on ", space.devices(),
           " devices");
  HP_CHECK(ring_turn.empty() || static_cast<int>(ring_turn.size()) == degrees.ring(),
           ring_turn.size(), " turns for ring ", degrees.ring());
  // Row-major over replica, cfg, ring, ulysses, tp; the digits of each axis outermost
  // first.
  std::vector<std::size_t> order;
  for (const Axis axis : kAxes)
    for (std::size_t i = 0; i < space.digits().size(); ++i)
      if (placement[axis] >> i & 1) order.push_back(i);

  const std::vector<int> used = space.device_indices();
  const int inner = degrees.ulysses() * degrees.tp();
  std::vector<int> ranks(static_cast<std::size_t>(space.devices()));
  std::vector<int> digits(space.digits().size());
  for (std::size_t place = 0; place < ranks.size(); ++place) {
    std::size_t at = place;
    if (!ring_turn.empty()) {
      const int ring = static_cast<int>(place) / inner % degrees.ring();
      at = place + (static_cast<std::size_t>(ring_turn[ring]) - ring) * inner;
    }
    for (std::size_t k = order.size(); k-- > 0;) {
      const int radix = space.digits()[order[k]].radix;
      digits[order[k]] = static_cast<int>(at % radix);
      at /= radix;
    }
    const int device = space.device_index(digits);
    ranks[place] = static_cast<int>(std::lower_bound(used.begin(), used.end(), device) -
                                    used.begin());
  }
  std::vector<int> devices = used;
  if (!topology.device_ids.empty())
    for (int& d : devices) d = topology.device_ids[static_cast<std::size_t>(d)];
  return Mesh(degrees, {kAxes.begin(), kAxes.end()}, std::move(ranks),
              std::move(devices));
}

}  // namespace hpplan
