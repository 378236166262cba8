// The three kinds of error of the project, and no fourth.
//   1. The user's input is wrong: throw InputError. Caught once, in main; exit code 2.
//   2. A mesh is illegal, a measured run failed: a value (Finding, Measurement::error). Never thrown.
//   3. Our own mistake: HP_CHECK prints the condition and the values, and aborts.
#pragma once

#include <cstdio>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace hpplan {

// Where in the user's input something stands. line and column count from 1; 0 means not known
// (a flag, a whole file).
struct Location {
  std::string file;  // path, or the flag ("--tp")
  int line = 0;
  int column = 0;
  auto operator<=>(const Location&) const = default;
};

// text() reads "file:line:col: key: what was expected, what was given".
class InputError : public std::runtime_error {
 public:
  InputError(Location where, std::string key, const std::string& what);
  explicit InputError(const std::string& what) : InputError({}, "", what) {}
  const Location& where() const { return where_; }
  const std::string& key() const { return key_; }

 private:
  Location where_;
  std::string key_;
};

// Adds `value` to `out` as a stream would print it; a stream is made only for types that
// need one, since making one takes longer than all the rest.
template <class T>
void append(std::string& out, const T& value) {
  if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    out += std::string_view(value);
  } else if constexpr (std::is_same_v<T, char>) {
    out += value;
  } else if constexpr (std::is_same_v<T, bool>) {
    out += value ? '1' : '0';
  } else if constexpr (std::is_integral_v<T> && sizeof(T) > 1) {
    out += std::to_string(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    char text[32];
    out.append(text, std::snprintf(text, sizeof text, "%g", static_cast<double>(value)));
  } else {
    std::ostringstream stream;
    stream << value;
    out += stream.str();
  }
}

// Everything in one string: concat("tp ", 8, " does not divide ", 30).
template <class... Args>
std::string concat(const Args&... args) {
  std::string out;
  (append(out, args), ...);
  return out;
}

// The name in `known` nearest to `given` by edit distance, or "" when none is near enough to be meant
// (more than a third of its letters differ).
std::string nearest(std::string_view given, const std::vector<std::string>& known);

// ", did you mean 'x'?" or "".
std::string did_you_mean(std::string_view given, const std::vector<std::string>& known);

[[noreturn]] void check_failed(const char* condition, const char* file, int line,
                               const std::string& values);

}  // namespace hpplan

#define HP_CHECK(condition, ...)                                                     \
  do {                                                                               \
    if (!(condition))                                                                \
      ::hpplan::check_failed(#condition, __FILE__, __LINE__, ::hpplan::concat(__VA_ARGS__)); \
  } while (false)
