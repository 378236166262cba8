#include "planner/spec/quantity.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

namespace hpplan {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array<Unit, 9> kBytes = {{{"B", 1},
                                         {"KiB", 1024.0},
                                         {"MiB", 1024.0 * 1024},
                                         {"GiB", kGiB},
                                         {"TiB", kGiB * 1024},
                                         {"KB", 1e3},
                                         {"MB", 1e6},
                                         {"GB", 1e9},
                                         {"TB", 1e12}}};
constexpr std::array<Unit, 6> kSeconds = {
    {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {"m", 60}, {"h", 3600}}};
constexpr std::array<Unit, 7> kBandwidth = {{{"B/s", 1},
                                             {"KB/s", 1e3},
                                             {"MB/s", 1e6},
                                             {"GB/s", 1e9},
                                             {"TB/s", 1e12},
                                             {"Gbit/s", 1e9 / 8},
                                             {"Mbit/s", 1e6 / 8}}};
constexpr std::array<Unit, 4> kFlops = {
    {{"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}, {"FLOP/s", 1}}};

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// The number at the front of text, and what follows it.
bool split_number(std::string_view text, double* value, std::string_view* rest) {
  text = trim(text);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  if (error != std::errc() || !std::isfinite(*value)) return false;
  *rest = trim(text.substr(static_cast<std::size_t>(end - text.data())));
  return true;
}

std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 60;
  return text.size() <= kMost ? std::string(text) : std::string(text.substr(0, kMost)) + "...";
}

template <std::size_t N>
double parse(std::string_view text, const std::array<Unit, N>& units, const char* what, const char* example,
             const Location& where, const std::string& key) {
  double value = 0;
  std::string_view unit;
  if (!split_number(text, &value, &unit))
    throw InputError(where, key, concat("expected ", what, " such as ", example, ", got '", shown(text), "'"));
  if (value < 0)
    throw InputError(where, key, concat("expected ", what, " of at least 0, got '", shown(text), "'"));
  std::string names;
  for (const Unit& u : units) {
    if (u.name == unit) {
      // 24 * 2^30 and 1.5 / 1e6 are exact where 1.5 * 1e-6 is not.
      return u.factor < 1 ? value / std::round(1 / u.factor) : value * u.factor;
    }
    names += concat(names.empty() ? "" : ", ", u.name);
  }
  const std::string given = unit.empty() ? "no unit" : concat("unit '", shown(unit), "'");
  throw InputError(where, key,
                   concat("expected ", what, " with a unit (", names, ") such as ", example, ", got '",
                          shown(text), "' with ", given));
}

template <std::size_t N>
std::string format_in(double value, const std::array<Unit, N>& units,
                      const std::vector<std::string_view>& use) {
  Unit best{};
  for (const std::string_view name : use)
    for (const Unit& u : units)
      if (u.name == name && (best.factor == 0 || value >= u.factor)) best = u;
  const double scaled = best.factor < 1 ? value * std::round(1 / best.factor) : value / best.factor;
  return format_number(scaled) + std::string(best.name);
}

}  // namespace

std::string format_number(double value) {
  HP_CHECK(std::isfinite(value), "a number that is not finite was to be written");
  std::array<char, 40> buffer;
  if (value == 0) return "0";
  // Whole numbers without exponent up to 2^53.
  if (value == std::floor(value) && std::fabs(value) < 9007199254740992.0) {
    const auto [end, error] =
        std::to_chars(buffer.data(), buffer.data() + buffer.size(), static_cast<long long>(value));
    return {buffer.data(), end};
  }
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), end};
}

std::string format_rounded(double value, int digits) {
  HP_CHECK(std::isfinite(value), "a number that is not finite was to be written");
  if (value == 0) return "0";
  const double scale = std::pow(10.0, digits - 1 - std::floor(std::log10(std::fabs(value))));
  std::array<char, 64> buffer;
  const double rounded = std::round(value * scale) / scale;
  // Plain digits: people compare columns of them.
  const int decimals = std::max(0, static_cast<int>(std::ceil(std::log10(scale))));
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), rounded,
                                          std::chars_format::fixed, std::min(decimals, 15));
  std::string text(buffer.data(), end);
  if (text.find('.') != std::string::npos) {
    while (text.back() == '0') text.pop_back();
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

std::string format(Bytes bytes) { return format_in(bytes.value, kBytes, {"B", "KiB", "MiB", "GiB", "TiB"}); }
std::string format(Seconds seconds) { return format_in(seconds.value, kSeconds, {"ns", "us", "ms", "s"}); }
std::string format(BytesPerSecond rate) {
  return format_in(rate.value, kBandwidth, {"B/s", "KB/s", "MB/s", "GB/s", "TB/s"});
}
std::string format(FlopsPerSecond rate) { return format_in(rate.value, kFlops, {"GFLOP/s", "TFLOP/s"}); }

Bytes parse_bytes(std::string_view text, const Location& where, const std::string& key) {
  return Bytes(parse(text, kBytes, "a size", "24GiB", where, key));
}
Seconds parse_seconds(std::string_view text, const Location& where, const std::string& key) {
  return Seconds(parse(text, kSeconds, "a time", "1.5us", where, key));
}
BytesPerSecond parse_bandwidth(std::string_view text, const Location& where, const std::string& key) {
  return BytesPerSecond(parse(text, kBandwidth, "a bandwidth", "128GB/s", where, key));
}
FlopsPerSecond parse_flops(std::string_view text, const Location& where, const std::string& key) {
  return FlopsPerSecond(parse(text, kFlops, "a compute rate", "989TFLOP/s", where, key));
}
double parse_number(std::string_view text, const Location& where, const std::string& key) {
  double value = 0;
  std::string_view rest;
  if (!split_number(text, &value, &rest) || !rest.empty())
    throw InputError(where, key, concat("expected a finite number, got '", shown(text), "'"));
  return value;
}

}  // namespace hpplan
