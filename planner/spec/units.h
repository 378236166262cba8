// Physical quantities as types. Only arithmetic that means something compiles: Bytes / BytesPerSecond is
// Seconds, Bytes + Seconds is an error. Every quantity is one double in SI base units (bytes, seconds,
// floating-point operations); text with units is read and written by parse_* / format_* in quantity.h.
#pragma once

#include <compare>

namespace hpplan {

template <class Tag>
struct Quantity {
  double value = 0;

  constexpr Quantity() = default;
  constexpr explicit Quantity(double v) : value(v) {}

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity& operator+=(Quantity o) { value += o.value; return *this; }
  constexpr Quantity& operator-=(Quantity o) { value -= o.value; return *this; }
  constexpr Quantity& operator*=(double k) { value *= k; return *this; }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.value + b.value); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.value - b.value); }
  friend constexpr Quantity operator*(Quantity a, double k) { return Quantity(a.value * k); }
  friend constexpr Quantity operator*(double k, Quantity a) { return Quantity(a.value * k); }
  friend constexpr Quantity operator/(Quantity a, double k) { return Quantity(a.value / k); }
  friend constexpr double operator/(Quantity a, Quantity b) { return a.value / b.value; }
};

using Bytes = Quantity<struct BytesTag>;
using Seconds = Quantity<struct SecondsTag>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag>;
using Flops = Quantity<struct FlopsTag>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag>;

constexpr Seconds operator/(Bytes a, BytesPerSecond b) { return Seconds(a.value / b.value); }
constexpr Seconds operator/(Flops a, FlopsPerSecond b) { return Seconds(a.value / b.value); }
constexpr Bytes operator*(BytesPerSecond a, Seconds b) { return Bytes(a.value * b.value); }

inline constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
inline constexpr double kGB = 1e9;

}  // namespace hpplan
