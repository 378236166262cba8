#include "runtime/agreement.h"

#include <algorithm>
#include <thread>

#include "planner/spec/error.h"

namespace hpplan::runtime {
namespace {

using Clock = std::chrono::steady_clock;

// Until the counter has come to `target`; false when the deadline comes first.
bool reached(const Store& store, const std::string& counter, std::int64_t target, Clock::time_point deadline) {
  auto pause = std::chrono::milliseconds(1);
  while (store.add(counter, 0) < target) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(100));
  }
  return true;
}

std::string list(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size() && i < 8; ++i) text += concat(i > 0 ? ", " : "", ranks[i]);
  return ranks.size() > 8 ? concat(text, " and ", ranks.size() - 8, " more") : text;
}

}  // namespace

std::string agree(const Store& store, const std::string& topic, int rank, int world, const std::string& said,
                  const std::function<std::string(const std::vector<std::string>&)>& judge,
                  std::chrono::milliseconds timeout) {
  const auto key = [&](const std::string& what) { return concat(topic, "/", what); };
  const auto deadline = Clock::now() + timeout;
  // The others wait a little longer, so that rank 0 can still tell them who is missing.
  const auto last = deadline + std::max<std::chrono::milliseconds>(timeout / 4, std::chrono::seconds(1));
  store.set(key(concat("said/", rank)), said);
  store.add(key(concat("came/", rank)), 1);
  store.add(key("came"), 1);
  if (rank != 0) {
    if (!reached(store, key("judged"), 1, last))
      throw InputError(concat("rank 0 did not come to the meeting within ", timeout.count(), " ms"));
    const std::string judgement = store.get(key("judgement"), timeout);
    store.add(key("heard"), 1);
    if (judgement.starts_with("absent: ")) throw InputError(judgement.substr(8));
    return judgement;
  }
  std::string judgement;
  int present = world;
  if (reached(store, key("came"), world, deadline)) {
    std::vector<std::string> all;
    for (int other = 0; other < world; ++other) all.push_back(store.get(key(concat("said/", other)), timeout));
    judgement = judge(all);
  } else {
    std::vector<int> absent;
    for (int other = 0; other < world; ++other)
      if (store.add(key(concat("came/", other)), 0) == 0) absent.push_back(other);
    present -= static_cast<int>(absent.size());
    judgement = concat("absent: ", list(absent), " did not come to the meeting within ", timeout.count(),
                       " ms; started, and able to reach this host?");
  }
  store.set(key("judgement"), judgement);
  store.add(key("judged"), 1);
  store.add(key("heard"), 1);
  // The store ends with rank 0: where the run ends here, the others hear why first.
  if (!judgement.empty()) reached(store, key("heard"), present, Clock::now() + std::chrono::seconds(2));
  if (judgement.starts_with("absent: ")) throw InputError(judgement.substr(8));
  return judgement;
}

void part(const Store& store, int rank, int world, std::chrono::milliseconds patience) {
  store.add("parted", 1);
  if (rank == 0) reached(store, "parted", world, Clock::now() + patience);
}

}  // namespace hpplan::runtime
