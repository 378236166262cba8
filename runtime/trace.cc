#include "runtime/trace.h"

#include <nlohmann/json.hpp>

namespace hpplan::runtime {

std::string merged_trace(const DeviceMesh& mesh, const std::vector<Span>& spans,
                         std::chrono::steady_clock::time_point zero) {
  using Json = nlohmann::ordered_json;
  const auto micros = [&](std::chrono::steady_clock::time_point t) {
    return std::chrono::duration<double, std::micro>(t - zero).count();
  };
  Json own = Json::array();
  own.push_back({{"name", "process_name"}, {"ph", "M"}, {"pid", mesh.rank()}, {"args", {{"name", mesh.describe()}}}});
  for (const Span& span : spans)
    own.push_back({{"name", span.name},
                   {"cat", span.track},
                   {"ph", "X"},
                   {"pid", mesh.rank()},
                   {"tid", span.track},
                   {"ts", micros(span.start)},
                   {"dur", micros(span.end) - micros(span.start)}});
  const std::vector<std::string> all = mesh.world().all_gather_text(own.dump());
  if (!mesh.main()) return "";
  Json events = Json::array();
  for (const std::string& text : all)
    for (Json& event : Json::parse(text)) events.push_back(std::move(event));
  return Json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}}.dump() + "\n";
}

}  // namespace hpplan::runtime
