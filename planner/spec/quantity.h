// Text with units <-> quantities. Units are required: "24GiB", "141GB", "128GB/s", "1.5us", "989TFLOP/s".
// Decimal prefixes are powers of 1000 (GB = 1e9 B), binary ones of 1024 (GiB). Numbers are written in the
// shortest form that reads back to the same double.
#pragma once

#include <string>
#include <string_view>

#include "planner/spec/error.h"
#include "planner/spec/units.h"

namespace hpplan {

// Shortest text that reads back to the same double ("0.1", "37739", "1e-06"). Never "nan" or "inf": those
// are a mistake of ours.
std::string format_number(double value);
// `digits` significant digits, trailing zeros cut; for people, not for files.
std::string format_rounded(double value, int digits);

// For people and files: the largest unit that keeps the number at least 1 ("24GiB", "128GB/s", "1.5us").
std::string format(Bytes bytes);              // binary units
std::string format(Seconds seconds);          // ns, us, ms, s
std::string format(BytesPerSecond rate);      // decimal units
std::string format(FlopsPerSecond rate);      // TFLOP/s

// Each throws InputError(where, key, ...) that names the units it takes. Negative, NaN and infinite values
// are refused.
Bytes parse_bytes(std::string_view text, const Location& where = {}, const std::string& key = "");
Seconds parse_seconds(std::string_view text, const Location& where = {}, const std::string& key = "");
BytesPerSecond parse_bandwidth(std::string_view text, const Location& where = {}, const std::string& key = "");
FlopsPerSecond parse_flops(std::string_view text, const Location& where = {}, const std::string& key = "");
// A plain finite number without unit.
double parse_number(std::string_view text, const Location& where = {}, const std::string& key = "");

}  // namespace hpplan
