#include "runtime/handshake.h"

#include <unistd.h>

#include <array>
#include <thread>

#include "planner/spec/error.h"
#include "planner/spec/hash.h"

namespace hpplan::runtime {
namespace {

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

void shake_hands(const Store& store, const Plan& plan, int rank, const std::string& software,
                 std::chrono::milliseconds timeout) {
  struct Said {
    const char* what;
    std::string value;
  };
  const std::vector<Said> said = {
      {"plan", plan.hash}, {"software", software}, {"groups", sha256(groups_text(plan.chosen.mesh))}};
  store.set(concat("host/", rank), host_name());
  for (const Said& s : said) store.set(concat("hello/", s.what, "/", rank), s.value);

  const int world = plan.chosen.mesh.size();
  std::string problems;
  for (const Said& s : said) {
    std::string first;
    for (int other = 0; other < world; ++other) {
      std::string theirs;
      try {
        theirs = store.get(concat("hello/", s.what, "/", other), timeout);
      } catch (const std::runtime_error&) {
        throw InputError(concat("rank ", other, " did not come to the meeting within ", timeout.count(),
                                " ms; was it started, and does it reach this host?"));
      }
      if (other == 0) first = theirs;
      else if (theirs != first)
        problems += concat(problems.empty() ? "" : "; ", "rank ", other, " has another ", s.what, " (", theirs.substr(0, 23),
                           ") than rank 0 (", first.substr(0, 23), ")");
    }
  }
  // The store lives in rank 0: it stays until everybody has read, so that all can say what is wrong.
  store.add("read", 1);
  for (int i = 0; rank == 0 && !problems.empty() && i < 100 && store.add("read", 0) < world; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  if (!problems.empty()) throw InputError(concat("ranks do not agree: ", problems, "; give all ranks the same plan file"));
  // Exactly one rank is the main one, whatever the coordinates say.
  if (rank == 0) HP_CHECK(store.add("main", 1) == 1, "two ranks are rank 0");
  // Where the plan names hosts, a rank on another one is remapped by nobody: it is an error.
  for (int other = 0; other < static_cast<int>(plan.hosts.size()); ++other)
    if (store.get(concat("host/", other), timeout) != plan.hosts[static_cast<std::size_t>(other)])
      throw InputError(concat("rank ", other, " runs on ", store.get(concat("host/", other), timeout),
                              "; the plan puts it on ", plan.hosts[static_cast<std::size_t>(other)]));
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
