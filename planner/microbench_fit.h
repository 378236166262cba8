// Rates of a device from micro-benchmarks of its kernels: what the formulas of compute.h
// ask for, by least squares over relative residuals.
//
//   GEMM        t = start + 2mnk/P * (1+m0/m)(1+n0/n)(1+k0/k)   P = peak * emax
//   attention   t = start + 4*batch*heads*d*q*kv / (P*Q) * (1+kv0/kv)
//   copy        t = bytes / (memory efficiency * bandwidth)
//
// Peaks and bandwidths that are known stay; one that a measurement exceeds was none and
// takes the measured figure, with an efficiency of 1. m0, n0, k0 and kv0 are told apart
// only by shapes that differ in m, n, k, kv: with one value of a width its constant
// stays.
#pragma once

#include <string>
#include <vector>

#include "planner/spec/microbench.h"
#include "planner/spec/rates.h"

namespace hpplan {

struct KernelReport {
  std::string what;  // "gemm, f32"
  int points = 0;
  double before = 0, after = 0,
         worst = 0;  // mean relative error of a point's time, largest after
};

// Changes `device` where there are points. Throws InputError for two dtypes of one kind,
// and attention of two head widths.
std::vector<KernelReport> fit_kernels(DeviceRates& device,
                                      const std::vector<Microbench>& groups,
                                      const std::string& file);

}  // namespace hpplan
