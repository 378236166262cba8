#include "runtime/split.h"

#include <algorithm>
#include <numeric>

#include "planner/spec/error.h"

namespace hpplan::runtime {
namespace {

// Part `index` of `total` in `parts` consecutive runs, the first ones one longer.
Range run_of(std::int64_t total, std::int64_t parts, std::int64_t index) {
  const std::int64_t base = total / parts;
  const std::int64_t more = total % parts;
  const std::int64_t begin = index * base + std::min(index, more);
  return {begin, begin + base + (index < more ? 1 : 0)};
}

}  // namespace

int HeadSplit::real_heads(int rank) const {
  const Range& own = q[static_cast<std::size_t>(rank)];
  return static_cast<int>(std::clamp<std::int64_t>(heads - own.begin, 0, own.size()));
}

HeadSplit split_heads(int heads, int kv_heads, int degree, UnevenHeads uneven) {
  if (heads < 1 || kv_heads < 1 || degree < 1 || heads % kv_heads != 0)
    throw InputError(concat("heads: ", heads, " query heads do not share ", kv_heads,
                            " KV heads evenly"));
  const int ratio = heads / kv_heads;
  HeadSplit split{heads, kv_heads, heads, kv_heads, {}, {}};

  if (kv_heads % degree != 0 && degree % kv_heads == 0) {
    // Fewer KV heads than ranks: each is copied to `copies` ranks, which share its query
    // heads.
    const int copies = degree / kv_heads;
    if (ratio < copies || (ratio % copies != 0 && uneven != UnevenHeads::kUneven))
      throw InputError(
          concat("heads: ", heads, " query heads do not divide by ", degree));
    for (int r = 0; r < degree; ++r) {
      const std::int64_t group = r / copies;
      const Range own = run_of(ratio, copies, r % copies);
      split.q.push_back({group * ratio + own.begin, group * ratio + own.end});
      split.kv.push_back({group, group + 1});
    }
    return split;
  }
  if (kv_heads % degree != 0) {
    if (uneven == UnevenHeads::kRefuse)
      throw InputError(concat("heads: ", heads, " query heads and ", kv_heads,
                              " KV heads do not divide by ", degree));
    if (uneven == UnevenHeads::kUneven && kv_heads < degree)
      throw InputError(concat("heads: ", kv_heads, " KV heads leave some of ", degree,
                              " ranks without any"));
    if (uneven == UnevenHeads::kPad) {
      // KV heads first, then query heads by the ratio, so that no group is torn.
      split.padded_kv_heads = (kv_heads + degree - 1) / degree * degree;
      split.padded_heads = split.padded_kv_heads * ratio;
    }
  }
  for (int r = 0; r < degree; ++r) {
    const Range kv = run_of(split.padded_kv_heads, degree, r);
    split.kv.push_back(kv);
    split.q.push_back({kv.begin * ratio, kv.end * ratio});
  }
  return split;
}

std::int64_t RowSplit::total() const {
  return std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
}
std::int64_t RowSplit::total_valid() const {
  return std::accumulate(valid.begin(), valid.end(), std::int64_t{0});
}
std::int64_t RowSplit::begin(int part) const {
  return std::accumulate(rows.begin(), rows.begin() + part, std::int64_t{0});
}
bool RowSplit::even() const {
  return std::all_of(rows.begin(), rows.end(), [&](auto n) { return n == rows[0]; });
}
bool RowSplit::padded() const { return rows != valid; }

RowSplit RowSplit::uneven(std::int64_t total, int parts) {
  RowSplit split;
  for (int p = 0; p < parts; ++p) split.rows.push_back(run_of(total, parts, p).size());
  split.valid = split.rows;
  return split;
}

RowSplit RowSplit::padded_to(std::int64_t total, int parts) {
  return of_padded((total + parts - 1) / parts * parts, total, parts);
}

RowSplit RowSplit::of_padded(std::int64_t held, std::int64_t valid, int parts) {
  if (held % parts != 0 || valid > held)
    throw InputError(concat("rows: ", held, " rows with ", valid,
                            " real ones do not cut into ", parts, " equal parts"));
  RowSplit split;
  const std::int64_t each = held / parts;
  for (int p = 0; p < parts; ++p) {
    split.rows.push_back(each);
    split.valid.push_back(std::clamp<std::int64_t>(valid - p * each, 0, each));
  }
  return split;
}

}  // namespace hpplan::runtime
