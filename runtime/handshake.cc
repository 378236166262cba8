#include "runtime/handshake.h"

#include <unistd.h>

#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "planner/spec/error.h"
#include "planner/spec/hash.h"
#include "runtime/agreement.h"

namespace hpplan::runtime {
namespace {

using Json = nlohmann::json;

// Every rank's groups as one text: two meshes that place anybody differently differ here.
std::string groups_text(const Mesh& mesh) {
  std::string text;
  for (const Axis axis : kAxes)
    for (const auto& group : mesh.groups(axis)) {
      text += concat(to_string(axis), ":");
      for (const int rank : group) text += concat(rank, ",");
    }
  return text;
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace

void shake_hands(const Store& store, const Plan& plan, int rank, const std::string& software, const std::string& device,
                 std::chrono::milliseconds timeout) {
  constexpr std::array<const char*, 4> kWhat = {"plan", "software", "groups", "host"};
  const Json said = {plan.hash, software, sha256(groups_text(plan.chosen.mesh)), host_name(), device};
  const auto judge = [&](const std::vector<std::string>& all) {
    std::string problems;
    int differing = 0;
    const Json first = Json::parse(all[0]);
    for (std::size_t other = 0; other < all.size(); ++other) {
      const Json theirs = Json::parse(all[other]);
      for (std::size_t i = 0; i < 3; ++i)
        if (theirs[i] != first[i] && ++differing <= 8)
          problems += concat(problems.empty() ? "" : "; ", "rank ", other, " has another ", kWhat[i], " (",
                             theirs[i].get<std::string>().substr(0, 23), ") than rank 0 (",
                             first[i].get<std::string>().substr(0, 23), ")");
    }
    std::map<std::string, std::size_t> owners;
    for (std::size_t other = 0; other < all.size(); ++other) {
      const Json theirs = Json::parse(all[other]);
      const auto host = theirs[3].get<std::string>(), on = theirs[4].get<std::string>();
      if (on.empty()) continue;
      const auto [owner, first_there] = owners.emplace(concat(on, " of ", host), other);
      if (!first_there && ++differing <= 8)
        problems += concat(problems.empty() ? "" : "; ", "ranks ", owner->second, " and ", other, " both compute on ",
                           owner->first);
    }
    if (differing > 8) problems += concat("; and ", differing - 8, " more");
    if (!problems.empty())
      return concat("ranks do not agree: ", problems, "; give all ranks the same plan file, the same hprun, and each a device of its own");
    // Where the plan names hosts, a rank on another one is remapped by nobody: it is an error.
    for (std::size_t other = 0; other < plan.hosts.size() && other < all.size(); ++other)
      if (const auto host = Json::parse(all[other])[3].get<std::string>(); host != plan.hosts[other])
        return concat("rank ", other, " runs on ", host, "; the plan puts it on ", plan.hosts[other]);
    return std::string();
  };
  const std::string problem =
      agree(store, "hands", rank, plan.chosen.mesh.size(), said.dump(), judge, timeout);
  if (!problem.empty()) throw InputError(problem);
  // Exactly one rank is the main one, whatever the coordinates say.
  if (rank == 0) HP_CHECK(store.add("main", 1) == 1, "two ranks are rank 0");
}

std::string wrong_world(const Plan& plan, int world) {
  const Mesh& mesh = plan.chosen.mesh;
  if (mesh.size() == world) return "";
  const Degrees& d = mesh.degrees();
  std::string product;
  for (const Axis axis : kAxes)
    if (d[axis] > 1) product += concat(product.empty() ? "" : " * ", to_string(axis), " ", d[axis]);
  return concat("the plan needs ", mesh.size(), " ranks (", product.empty() ? "1" : product, "), ", world,
                " were started: start ", mesh.size(), ", or plan again with hpplan --devices ", world);
}

}  // namespace hpplan::runtime
