#include "planner/microbench_fit.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>

#include "planner/compute.h"
#include "planner/fit.h"
#include "planner/spec/quantity.h"

namespace hpplan {
namespace {

struct Point {
  double m = 0, n = 0, k = 0;  // of a product
  const AttentionSeries* call = nullptr;
  double q = 0, kv = 0;
  double seconds = 0;
};

double rounded(double value) { return parse_number(format_rounded(value, 4)); }

double from_start(double seconds) {
  return std::max(seconds - kKernelStart.value, seconds / 10);
}

// P and the widths at which half of it is reached, of seconds * P = work * product of
// (1 + w0_i / width_i). One width at a time the rest is linear in 1/P and w0/P; repeated
// until it stays. half: where to start, and what a width keeps that has one value only.
struct HalfWidths {
  double rate = 0;
  std::vector<double> half;
};
HalfWidths fit_half_widths(const std::vector<double>& work,
                           const std::vector<std::vector<double>>& widths,
                           const std::vector<double>& seconds, std::vector<double> half) {
  HalfWidths fit{0, std::move(half)};
  const std::size_t count = fit.half.size();
  std::vector<bool> several(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::set<double> values;
    for (const auto& point : widths) values.insert(point[i]);
    several[i] = values.size() > 1;
  }
  // A pass over no width sets the rate.
  const auto pass = [&](std::size_t free) {
    std::vector<std::vector<double>> rows;
    for (std::size_t p = 0; p < work.size(); ++p) {
      double others = work[p];
      for (std::size_t i = 0; i < count; ++i)
        if (i != free) others *= 1 + fit.half[i] / widths[p][i];
      // In TFLOP/s and rows, so that columns are alike.
      rows.push_back({others / 1e12 / seconds[p]});
      if (free < count)
        rows.back().push_back(others / 1e12 / seconds[p] * 100 / widths[p][free]);
    }
    const std::vector<double> x =
        fit_nonnegative(rows, std::vector<double>(work.size(), 1));
    if (x[0] <= 0) return;  // all of the time would be the width's: leave it as it was
    fit.rate = 1e12 / x[0];
    if (free < count) fit.half[free] = x[1] * 100 / x[0];
  };
  pass(count);
  for (int round = 0; round < 40; ++round)
    for (std::size_t i = 0; i < count; ++i)
      if (several[i]) pass(i);
  return fit;
}

// The same for all, or an error that names both.
template <class T, class Name>
void only_one(std::optional<T>& known, T value, const std::string& file, int line,
              const char* of, const Name& name) {
  if (known && *known != value)
    throw InputError({file, line, 1}, "",
                     concat(of, " of ", name(*known), " and of ", name(value),
                            ": calibrate each into a profile of its own"));
  known = value;
}

struct Errors {
  double mean = 0, worst = 0;
};
Errors errors_of(const std::vector<Point>& points,
                 const std::function<double(const Point&)>& predicted) {
  Errors errors;
  for (const Point& point : points) {
    const double error = std::abs(predicted(point) / point.seconds - 1);
    errors.mean += error / static_cast<double>(points.size());
    errors.worst = std::max(errors.worst, error);
  }
  return errors;
}

FlopsPerSecond& peak_of(DeviceRates& device, DType dtype) {
  // What the formulas assume where no fp32 rate is given, made a figure of its own.
  if (dtype == DType::kF32 && device.peak_fp32.value <= 0)
    device.peak_fp32 = device.peak_bf16 / 8;
  if (dtype == DType::kF32) return device.peak_fp32;
  const bool quantized =
      dtype == DType::kFp8 || dtype == DType::kInt8 || dtype == DType::kNvfp4;
  return quantized && device.peak_fp8.value > 0 ? device.peak_fp8 : device.peak_bf16;
}

// A higher peak of a dtype must not speed up what was fitted or known in parts of it.
void raise_peak(DeviceRates& device, DType dtype, double rate) {
  FlopsPerSecond& peak = peak_of(device, dtype);
  if (rate <= peak.value) return;
  const double factor = peak.value / rate;
  peak = FlopsPerSecond(rounded(rate * 1.0005));
  device.peak_source = Source::kMeasured;
  GemmRates& gemm = &peak == &device.peak_fp8 ? device.gemm_fp8 : device.gemm;
  gemm.emax = rounded(gemm.emax * factor);
  if (&peak == &device.peak_fp8) return;
  for (AttentionRates* rates : {&device.attention, &device.attention_fa2})
    for (double* emax : {&rates->emax_d64, &rates->emax_d80, &rates->emax_d128})
      *emax = rounded(*emax * factor);
}

double attention_seconds(const DeviceRates& device, const Point& point) {
  const AttentionSeries& call = *point.call;
  return attention_time(device, call.dtype, false, call.batch, call.heads, call.head_dim,
                        point.q, point.kv)
      .value;
}

void fit_gemm(DeviceRates& device, const std::vector<Point>& points, DType dtype,
              std::vector<KernelReport>& reports) {
  const auto seconds = [&](const Point& p) {
    return gemm_time(device, dtype, p.m, p.n, p.k).value;
  };
  KernelReport report{concat("gemm, ", to_string(dtype)), static_cast<int>(points.size()),
                      errors_of(points, seconds).mean};
  const bool fp8 = &peak_of(device, dtype) == &device.peak_fp8;
  GemmRates& g = fp8 ? device.gemm_fp8 : device.gemm;
  std::vector<double> work, times;
  std::vector<std::vector<double>> widths;
  for (const Point& p : points) {
    work.push_back(2 * p.m * p.n * p.k);
    widths.push_back({p.m, p.n, p.k});
    times.push_back(from_start(p.seconds));
  }
  const HalfWidths fit = fit_half_widths(work, widths, times, {g.m0, g.n0, g.k0});
  raise_peak(device, dtype, fit.rate);
  g.emax = rounded(std::min(1.0, fit.rate / peak_of(device, dtype).value));
  g.m0 = rounded(fit.half[0]);
  g.n0 = rounded(fit.half[1]);
  g.k0 = rounded(fit.half[2]);
  const Errors after = errors_of(points, seconds);
  g.source = Source::kMeasured;
  g.confidence = {report.points, rounded(after.mean)};
  report.after = after.mean;
  report.worst = after.worst;
  reports.push_back(report);
}

void fit_attention(DeviceRates& device, const std::vector<Point>& points,
                   std::vector<KernelReport>& reports) {
  const AttentionSeries& call = *points.front().call;
  const auto seconds = [&](const Point& p) { return attention_seconds(device, p); };
  KernelReport report{
      concat("attention, ", to_string(call.dtype), ", head_dim ", call.head_dim),
      static_cast<int>(points.size()), errors_of(points, seconds).mean};
  // Work in units of the wave-quantized rate: what the formula gives at a rate of 1.
  DeviceRates unit = device;
  const DType of_peak = call.dtype == DType::kF32 ? DType::kF32 : DType::kBf16;
  const double peak = peak_of(unit, of_peak).value;
  unit.attention.emax_d64 = unit.attention.emax_d80 = unit.attention.emax_d128 = 1;
  unit.attention.kv0 = 0;
  std::vector<double> work, times;
  std::vector<std::vector<double>> widths;
  for (const Point& p : points) {
    work.push_back((attention_seconds(unit, p) - kKernelStart.value) * peak);
    widths.push_back({p.kv});
    times.push_back(from_start(p.seconds));
  }
  const HalfWidths fit = fit_half_widths(work, widths, times, {device.attention.kv0});
  raise_peak(device, of_peak, fit.rate);
  // One head width was measured: the others keep their ratio to it.
  const double now = fit.rate / peak_of(device, of_peak).value;
  DeviceRates probe = device;
  probe.attention.kv0 = 0;
  const Point& first = points.front();
  const double at_width = (attention_seconds(unit, first) - kKernelStart.value) * peak /
                          peak_of(device, of_peak).value /
                          (attention_seconds(probe, first) - kKernelStart.value);
  AttentionRates& a = device.attention;
  for (double* emax : {&a.emax_d64, &a.emax_d80, &a.emax_d128})
    *emax = rounded(std::min(1.0, *emax * now / at_width));
  a.kv0 = rounded(fit.half[0]);
  const Errors after = errors_of(points, seconds);
  a.source = Source::kMeasured;
  a.confidence = {report.points, rounded(after.mean)};
  report.after = after.mean;
  report.worst = after.worst;
  reports.push_back(report);
}

void fit_copies(DeviceRates& device, const std::vector<Point>& points,
                std::vector<KernelReport>& reports) {
  const auto seconds = [&](const Point& p) { return memory_time(device, p.m).value; };
  KernelReport report{"copy", static_cast<int>(points.size()),
                      errors_of(points, seconds).mean};
  std::vector<std::vector<double>> rows;
  for (const Point& p : points) rows.push_back({p.m / 1e9 / p.seconds});
  const double rate =
      1e9 / fit_nonnegative(rows, std::vector<double>(points.size(), 1))[0];
  if (rate > device.memory_bandwidth.value)
    device.memory_bandwidth = BytesPerSecond(rounded(rate * 1.0005));
  device.memory_efficiency = rounded(std::min(1.0, rate / device.memory_bandwidth.value));
  const Errors after = errors_of(points, seconds);
  report.after = after.mean;
  report.worst = after.worst;
  reports.push_back(report);
}

}  // namespace

std::vector<KernelReport> fit_kernels(DeviceRates& device,
                                      const std::vector<Microbench>& groups,
                                      const std::string& file) {
  std::vector<Point> products, calls, copies;
  std::optional<DType> gemm_type, attention_type;
  std::optional<int> head_dim;
  const auto dtype_name = [](DType dtype) { return std::string(to_string(dtype)); };
  for (const Microbench& group : groups) {
    for (const GemmSeries& series : group.gemms) {
      only_one(gemm_type, series.dtype, file, series.line, "products", dtype_name);
      for (const BenchPoint& p : series.points)
        products.push_back({.m = p.x,
                            .n = static_cast<double>(series.n),
                            .k = static_cast<double>(series.k),
                            .seconds = p.time.value});
    }
    for (const AttentionSeries& series : group.attentions) {
      only_one(attention_type, series.dtype, file, series.line, "attention", dtype_name);
      only_one(head_dim, series.head_dim, file, series.line, "attention",
               [](int width) { return concat("head_dim ", width); });
      for (std::size_t i = 0; i < series.points.size(); ++i)
        calls.push_back({.call = &series,
                         .q = series.queries[i],
                         .kv = series.points[i].x,
                         .seconds = series.points[i].time.value});
    }
    for (const CopySeries& series : group.copies)
      for (const BenchPoint& p : series.points)
        copies.push_back({.m = p.x, .seconds = p.time.value});
  }
  std::vector<KernelReport> reports;
  // Before products: their formula looks at the memory too.
  if (!copies.empty()) fit_copies(device, copies, reports);
  if (!products.empty()) fit_gemm(device, products, *gemm_type, reports);
  if (!calls.empty()) fit_attention(device, calls, reports);
  return reports;
}

}  // namespace hpplan
