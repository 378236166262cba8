// The journal of a tuning run: one line of JSON a finished measurement, appended and
// synced before anything else happens, so that an interrupted run loses none and resumes
// where it stopped. Lines of other models, machines, engines or versions are kept but not
// used.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "planner/spec/plan.h"

namespace hpplan {

// What a measurement is of. Two are comparable when all of it is equal.
struct MeasurementKey {
  std::string layout;  // digest of axes, split and mesh
  // model, workload, topology, engine, fabric rules, runner, host: name -> hash or
  // version
  std::map<std::string, std::string> inputs;
  bool operator==(const MeasurementKey&) const = default;
};
MeasurementKey measurement_key(const Plan& plan, const std::string& runner);

class Journal {
 public:
  // Opens or begins the file and locks it for this process. A last line that was cut off
  // is passed over. Throws InputError for a file that is no journal, or one that another
  // process tunes with.
  explicit Journal(const std::string& path);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // The measurements of exactly this, in the order they were made.
  std::vector<Measurement> find(const MeasurementKey& key) const;
  // Of the same layout made under other inputs: how many, by the first input that
  // differs.
  std::map<std::string, int> expired(const MeasurementKey& key) const;

  // On the disk when it returns. Throws InputError when it cannot be.
  void append(const MeasurementKey& key, const Measurement& measurement);

 private:
  struct Entry {
    MeasurementKey key;
    Measurement measurement;
  };
  std::string path_;
  int file_ = -1;
  bool torn_ = false;  // the file ends inside a line
  std::vector<Entry> entries_;
};

}  // namespace hpplan
