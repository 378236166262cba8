// How heads and rows fall on the ranks of an axis: pure functions of the layer's own
// numbers, used by weights, exchange and attention alike. Nothing here knows a rank of
// the world or a tensor.
#pragma once

#include <cstdint>
#include <vector>

namespace hpplan::runtime {

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

enum class UnevenHeads : std::uint8_t {
  kRefuse,  // heads divide, or it is an error
  kPad,     // zero heads up to a multiple; every rank holds the same number
  kUneven,  // ranks hold ceil or floor of the heads, nothing padded
};

// Which query and KV heads each rank holds. Query heads of one KV head (heads / kv_heads
// of them) never meet another KV head's. q[r] and kv[r] count within the padded heads;
// those from `heads` (`kv_heads`) on are zeros. A KV head may be on several ranks.
struct HeadSplit {
  int heads = 0, kv_heads = 0;                // real
  int padded_heads = 0, padded_kv_heads = 0;  // == real unless padded
  std::vector<Range> q, kv;

  int degree() const { return static_cast<int>(q.size()); }
  int real_heads(int rank) const;  // of q[rank]
  bool padded() const { return padded_heads != heads; }
};

// KV heads that do not divide: replicated when the degree is a multiple of them; else
// padded or laid unevenly by whole KV groups, as `uneven` says. Throws InputError when
// the split cannot be made, naming the numbers.
HeadSplit split_heads(int heads, int kv_heads, int degree, UnevenHeads uneven);

// Rows of a sequence on the parts of ring x ulysses, part = ring * U + ulysses, in
// consecutive runs. Padding is at the global tail only, so `valid` rows of a part are its
// first ones.
struct RowSplit {
  std::vector<std::int64_t> rows;   // held, padding included
  std::vector<std::int64_t> valid;  // of them real

  int parts() const { return static_cast<int>(rows.size()); }
  std::int64_t total() const;        // held by all parts
  std::int64_t total_valid() const;  // real
  std::int64_t begin(int part) const;
  bool even() const;    // all parts hold the same number
  bool padded() const;  // some row is not real

  // The first total % parts ones hold one row more.
  static RowSplit uneven(std::int64_t total, int parts);
  // All hold ceil(total / parts); the tail is padding.
  static RowSplit padded_to(std::int64_t total, int parts);
  // `held` rows cut evenly (held divides by parts), the first `valid` of them real.
  static RowSplit of_padded(std::int64_t held, std::int64_t valid, int parts);
};

}  // namespace hpplan::runtime
