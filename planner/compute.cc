#include "planner/compute.h"

#include <algorithm>
#include <cmath>

namespace hpplan {
namespace {

FlopsPerSecond peak_of(const DeviceRates& device, DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return device.peak_fp32.value > 0 ? device.peak_fp32 : device.peak_bf16 / 8;
    case DType::kFp8:
    case DType::kInt8:
    case DType::kNvfp4:
      return device.peak_fp8.value > 0 ? device.peak_fp8 : device.peak_bf16;
    case DType::kBf16:
    case DType::kF16:
      return device.peak_bf16;
  }
  return device.peak_bf16;
}

bool quantized(DType dtype) { return dtype == DType::kFp8 || dtype == DType::kInt8 || dtype == DType::kNvfp4; }

// emax between the head widths that were measured, in a straight line; beyond them the nearest.
double emax_of(const AttentionRates& rates, int d) {
  if (d <= 64) return rates.emax_d64;
  if (d <= 80) return rates.emax_d64 + (rates.emax_d80 - rates.emax_d64) * (d - 64) / 16.0;
  if (d <= 128) return rates.emax_d80 + (rates.emax_d128 - rates.emax_d80) * (d - 80) / 48.0;
  return rates.emax_d128;
}

}  // namespace

Seconds gemm_time(const DeviceRates& device, DType dtype, double m, double n, double k) {
  if (m <= 0 || n <= 0 || k <= 0) return Seconds(0);
  const bool fp8 = quantized(dtype) && device.peak_fp8.value > 0;
  const GemmRates& g = fp8 ? device.gemm_fp8 : device.gemm;
  const double efficiency = g.emax * m / (m + g.m0) * n / (n + g.n0) * k / (k + g.k0);
  const double flops = 2 * m * n * k / (peak_of(device, dtype).value * efficiency);
  const double operand = bytes_of(dtype), result = dtype == DType::kF32 ? 4 : 2;
  const double traffic = memory_time(device, operand * (m * k + n * k) + result * m * n).value;
  return Seconds(std::max(flops, traffic)) + kKernelStart;
}

Seconds attention_time(const DeviceRates& device, DType dtype, bool fa2, double batch, double heads, int head_dim,
                       double q, double kv) {
  if (batch <= 0 || heads <= 0 || q <= 0 || kv <= 0) return Seconds(0);
  const AttentionRates& rates = fa2 ? device.attention_fa2 : device.attention;
  const int tile = head_dim <= 80 && rates.tile_rows_small > 0 ? rates.tile_rows_small : rates.tile_rows;
  const double units = batch * heads * std::ceil(q / tile);
  const double wave = units / (std::ceil(units / device.units) * device.units);
  // Weights may be quantized; attention runs on 16-bit rows.
  const FlopsPerSecond peak = peak_of(device, dtype == DType::kF32 ? dtype : DType::kBf16);
  const double rate = peak.value * emax_of(rates, head_dim) * wave * kv / (kv + rates.kv0);
  return Seconds(4 * batch * heads * head_dim * q * kv / rate) + kKernelStart;
}

Seconds memory_time(const DeviceRates& device, double bytes) {
  return Seconds(bytes / (device.memory_efficiency * device.memory_bandwidth.value));
}

}  // namespace hpplan
