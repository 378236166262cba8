// Device time of the three things a block computes: matrix products, attention, elementwise passes. Formulas
// and constants: a least-squares fit over published GEMM, attention and end-to-end tables; each function
// names its symbols.
#pragma once

#include <cstdint>

#include "planner/spec/rates.h"
#include "planner/spec/workload.h"

namespace hpplan {

// Start of one kernel.
inline constexpr Seconds kKernelStart{3e-6};

// [m, k] x [k, n]:
//   max( 2mnk / (peak * emax * m/(m+m0) * n/(n+n0) * k/(k+k0)),  (e*(mk + nk) + 2mn) / (eff * HBM) ) + start
// e: bytes of an element of the operands. Quantized operands take the fp8 rates where the device has such
// units; fp32 takes peak_fp32, or an eighth of bf16 where that is not given (tensor cores off).
Seconds gemm_time(const DeviceRates& device, DType dtype, double m, double n, double k);

// q query rows against kv key rows, `heads` heads of width d, `batch` of them:
//   4*batch*heads*d*q*kv / (peak * emax(d) * Q * kv/(kv+kv0)) + start
//   Q = units / (ceil(units/SM) * SM), units = batch*heads*ceil(q/tile): the last wave is not full
// fa2: the rates of the older kernel.
Seconds attention_time(const DeviceRates& device, DType dtype, bool fa2, double batch, double heads, int head_dim,
                       double q, double kv);

// Reading or writing `bytes` of device memory.
Seconds memory_time(const DeviceRates& device, double bytes);

}  // namespace hpplan
