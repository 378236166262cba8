// What a rank really loaded, as digests that ranks compare: two ranks of one tp coordinate must hold the same bytes, two
// of one tp group different ones. A checkpoint that is another one on some host, or a shard that was chosen by the rank
// within a node, would otherwise run and give noise.
#pragma once

#include <map>
#include <string>

#include "planner/spec/mesh.h"
#include "runtime/store.h"
#include "runtime/weights.h"

namespace hpplan::runtime {

// Hands reads on to `source` and keeps a digest of each result. Of a tensor above 1 MiB, 256 evenly spread pages of
// 4 KiB are looked at, so that loading is not slowed down: other weights are found, one flipped bit is not.
class DigestingWeights final : public WeightSource {
 public:
  explicit DigestingWeights(WeightSource& source) : source_(source) {}

  at::Tensor read(const WeightSpec& spec, const Slice& slice, at::ScalarType dtype) override;
  bool has(const std::string& name) const override { return source_.has(name); }
  std::uint64_t bytes_read() const override { return source_.bytes_read(); }
  std::string config_path() const override { return source_.config_path(); }
  std::string describe() const override { return source_.describe(); }

  // By name: tensors every rank holds alike, and those tp divides.
  const std::map<std::string, std::uint64_t>& whole() const { return whole_; }
  const std::map<std::string, std::uint64_t>& divided() const { return divided_; }

 private:
  WeightSource& source_;
  std::map<std::string, std::uint64_t> whole_, divided_;
};

// Throws InputError, on every rank, naming ranks and tensor when ranks that must hold the same weights do not, or two of
// a tp group hold the same shard. Collective; waits for slow loaders up to `timeout`.
void compare_weights(const Store& store, const Mesh& mesh, int rank, const DigestingWeights& weights,
                     std::chrono::milliseconds timeout);

}  // namespace hpplan::runtime
