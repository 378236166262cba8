#include "runtime/weight_digest.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "planner/spec/error.h"
#include "runtime/agreement.h"

namespace hpplan::runtime {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15ULL;
constexpr std::size_t kWhole = 1 << 20, kPage = 4096, kPages = 256;

std::uint64_t mixed(std::uint64_t h, std::uint64_t word) {
  h = (h ^ word) * kOdd;
  return h ^ h >> 29;
}

std::uint64_t digest(std::uint64_t h, const char* data, std::size_t size) {
  std::size_t i = 0;
  for (std::uint64_t word; i + sizeof word <= size; i += sizeof word) {
    std::memcpy(&word, data + i, sizeof word);
    h = mixed(h, word);
  }
  std::uint64_t rest = 0;
  if (i < size) std::memcpy(&rest, data + i, size - i);
  return mixed(h, rest);
}

std::uint64_t digest(const at::Tensor& tensor) {
  std::uint64_t h = mixed(kOdd, static_cast<std::uint64_t>(tensor.scalar_type()));
  for (const std::int64_t extent : tensor.sizes()) h = mixed(h, static_cast<std::uint64_t>(extent));
  const auto* data = static_cast<const char*>(tensor.const_data_ptr());
  const std::size_t size = tensor.nbytes();
  if (size <= kWhole) return digest(h, data, size);
  for (std::size_t page = 0; page < kPages; ++page) h = digest(h, data + (size - kPage) / (kPages - 1) * page, kPage);
  return h;
}

std::uint64_t digest(const std::map<std::string, std::uint64_t>& tensors) {
  std::uint64_t h = kOdd;
  for (const auto& [name, value] : tensors) h = mixed(digest(h, name.data(), name.size()), value);
  return h;
}

// The first tensor in which two maps differ.
std::string first_difference(const Json& a, const Json& b) {
  for (const auto& [name, value] : a.items())
    if (!b.contains(name) || b[name] != value) return name;
  for (const auto& [name, value] : b.items())
    if (!a.contains(name)) return name;
  return "";
}

}  // namespace

at::Tensor DigestingWeights::read(const WeightSpec& spec, const Slice& slice, at::ScalarType dtype) {
  at::Tensor out = source_.read(spec, slice, dtype);
  std::uint64_t h = digest(out);
  for (const auto& [begin, end] : slice.ranges)
    h = mixed(mixed(h, static_cast<std::uint64_t>(begin)), static_cast<std::uint64_t>(end));
  // A model may read a weight in several pieces.
  auto& known = (slice.whole() ? whole_ : divided_)[spec.name];
  known = mixed(known, h);
  return out;
}

void compare_weights(const Store& store, const Mesh& mesh, int rank, const DigestingWeights& weights,
                     std::chrono::milliseconds timeout) {
  const auto tensors_key = [](int r) { return concat("weights/tensors/", r); };
  // Tensor by tensor, read only to name the one that differs.
  Json one_by_one = weights.whole();
  for (const auto& [name, value] : weights.divided()) one_by_one[name] = value;
  store.set(tensors_key(rank), one_by_one.dump());

  const auto judge = [&](const std::vector<std::string>& all) {
    std::vector<Json> said;
    said.reserve(all.size());
    for (const std::string& text : all) said.push_back(Json::parse(text));
    const auto of = [&](int r) -> const Json& { return said[static_cast<std::size_t>(r)]; };
    std::map<int, int> first;  // rank of a tp coordinate
    for (int r = 0; r < mesh.size(); ++r) {
      const int like = first.emplace(mesh.coordinate(r, Axis::kTp), r).first->second;
      for (const auto& [other, what] : {std::pair{like, "divided"}, std::pair{0, "whole"}}) {
        if (of(r)[what] == of(other)[what]) continue;
        const Json mine = Json::parse(store.get(tensors_key(r), timeout));
        const Json theirs = Json::parse(store.get(tensors_key(other), timeout));
        return concat("ranks ", other, " and ", r, " must hold the same ", first_difference(theirs, mine),
                      " and do not: is the checkpoint the same on both hosts?");
      }
    }
    for (const auto& group : mesh.groups(Axis::kTp)) {
      std::map<std::uint64_t, int> holder;
      for (const int r : group) {
        const auto shard = of(r)["divided"].get<std::uint64_t>();
        const auto [held, fresh] = holder.emplace(shard, r);
        if (shard != 0 && !fresh)
          return concat("ranks ", held->second, " and ", r,
                        " of one tp group hold the same shard of the weights, and must hold different ones");
      }
    }
    return std::string();
  };
  const Json own = {{"whole", digest(weights.whole())}, {"divided", weights.divided().empty() ? 0 : digest(weights.divided())}};
  const std::string problem = agree(store, "weights", rank, mesh.size(), own.dump(), judge, timeout);
  if (!problem.empty()) throw InputError(problem);
}

}  // namespace hpplan::runtime
