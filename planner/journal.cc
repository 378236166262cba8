#include "planner/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <optional>
#include <sstream>

#include "planner/spec/error.h"
#include "planner/spec/hash.h"
#include "planner/spec/plan_document.h"
#include "planner/spec/plan_yaml.h"

namespace hpplan {
namespace {

constexpr int kFormat = 1;
constexpr off_t kMostBytes = off_t{256} << 20;

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

std::string now() {
  const std::time_t time = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

// nullopt for a line that is not whole.
std::optional<std::pair<MeasurementKey, Measurement>> parse_line(
    const std::string& line, const std::string& where) {
  const Document d = Document::parse(line, nullptr, false);
  if (!d.is_object() || d.value("hpplan_journal", 0) != kFormat) return std::nullopt;
  MeasurementKey key;
  try {
    key.layout = d.at("layout").get<std::string>();
    for (const auto& [name, value] : d.at("inputs").items())
      key.inputs[name] = value.get<std::string>();
    return std::pair(key, parse_measurement(d.at("measurement").dump(), where));
  } catch (const Document::exception&) {
    return std::nullopt;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

}  // namespace

MeasurementKey measurement_key(const Plan& plan, const std::string& runner) {
  MeasurementKey key;
  const Document core = plan_core(plan);
  key.layout = sha256(canonical(core["axes"]) + canonical(core["split"]) +
                      canonical(core["mesh"]));
  key.inputs = {{"model", plan.model_hash},
                {"workload", plan.workload_hash},
                {"topology", plan.topology_hash},
                {"engine", plan.engine.name},
                {"fabric_rules", std::string(to_string(plan.fabric_rules))},
                {"runner", runner},
                {"host", host_name()}};
  return key;
}

Journal::Journal(const std::string& path) : path_(path) {
  file_ = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file_ < 0)
    throw InputError({path}, "", concat("cannot be opened: ", std::strerror(errno)));
  const auto refuse = [&](const std::string& why) {
    close(file_);
    throw InputError({path}, "", why);
  };
  if (flock(file_, LOCK_EX | LOCK_NB) != 0)
    refuse("another hpplan is tuning with this journal");
  struct stat about {};
  if (fstat(file_, &about) != 0 || !S_ISREG(about.st_mode)) refuse("is not a file");
  if (about.st_size > kMostBytes) refuse("is too large to be a journal");
  std::string text(static_cast<std::size_t>(about.st_size), '\0');
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n =
        pread(file_, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) refuse(concat("cannot be read: ", std::strerror(errno)));
    done += static_cast<std::size_t>(n);
  }
  torn_ = !text.empty() && text.back() != '\n';
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    auto entry = parse_line(line, concat(path, ":", ++number));
    if (entry) entries_.push_back({std::move(entry->first), std::move(entry->second)});
  }
  // A line may be cut off anywhere, but a file without one that even begins like ours is
  // somebody's.
  const std::string begin = "{\"hpplan_journal\"";
  const std::size_t shown = std::min(begin.size(), text.size());
  if (entries_.empty() && text.find_first_not_of('\n') != std::string::npos &&
      text.compare(0, shown, begin, 0, shown) != 0)
    refuse("is not a journal of hpplan tune");
}

Journal::~Journal() {
  if (file_ >= 0) close(file_);
}

std::vector<Measurement> Journal::find(const MeasurementKey& key) const {
  std::vector<Measurement> found;
  for (const Entry& entry : entries_)
    if (entry.key == key) found.push_back(entry.measurement);
  return found;
}

std::map<std::string, int> Journal::expired(const MeasurementKey& key) const {
  std::map<std::string, int> counts;
  for (const Entry& entry : entries_) {
    if (entry.key.layout != key.layout || entry.key == key) continue;
    std::string differs = "inputs";
    for (const auto& [name, value] : key.inputs) {
      const auto it = entry.key.inputs.find(name);
      if (it == entry.key.inputs.end() || it->second != value) {
        differs = name;
        break;
      }
    }
    ++counts[differs];
  }
  return counts;
}

void Journal::append(const MeasurementKey& key, const Measurement& measurement) {
  Document d;
  d["hpplan_journal"] = kFormat;
  d["at"] = now();
  d["layout"] = key.layout;
  for (const auto& [name, value] : key.inputs) d["inputs"][name] = value;
  d["measurement"] = measurement_document(measurement);
  // What was cut off stays a line of its own.
  const std::string line = concat(torn_ ? "\n" : "", d.dump(-1, ' ', true), "\n");
  for (std::size_t done = 0; done < line.size();) {
    const ssize_t n = write(file_, line.data() + done, line.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      throw InputError({path_}, "", concat("cannot be written: ", std::strerror(errno)));
    done += static_cast<std::size_t>(n);
  }
  if (fsync(file_) != 0)
    throw InputError({path_}, "", concat("cannot be synced: ", std::strerror(errno)));
  torn_ = false;
  entries_.push_back({key, measurement});
}

}  // namespace hpplan
