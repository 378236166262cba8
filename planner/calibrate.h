// Calibration: rates of a device and of a fabric from what was measured. Links are
// measured, software is fitted.
//
//   nccl-tests, nccom-test   a, B, c of each (collective, ranks): t = a + w/B + c*sqrt(w)
//   hprun --probe            the same with the contention of the groups that ran at once taken
//                            out, and rates of products, attention and copies
//                            (microbench_fit.h)
//   runs                     how much slower compute and attention are than the profile
//   says, by least squares over
//                            measured - (collectives + host) = f * compute + g *
//                            attention, drawn towards 1 with the weight of a quarter of a
//                            run; GEMM and memory efficiency are divided by f, attention
//                            efficiency by g, and the steps predicted again, until they
//                            stay
// Runs are: plans that were measured (`measured` in the file), measurements beside the
// plan they name, and rows of files in the format of published measurements that ran on
// the device and give seconds a step.
//
// Every number written says what it rests on (basis), how many points (points) and their
// mean error (error). Refused with InputError: mislabelled input, two tables or two runs
// of the same thing that contradict each other, no usable input at all.
#pragma once

#include <string>
#include <vector>

#include "planner/bench_import.h"
#include "planner/fit.h"
#include "planner/microbench_fit.h"
#include "planner/spec/catalog.h"
#include "planner/spec/rates.h"

namespace hpplan {

struct CalibrationInput {
  std::string file;  // its name, in error texts
  std::string text;
  BenchHints hints;
};

struct CurveReport {
  CurveFit fit;
  std::string from;  // files
  std::string how;   // op and ranks are known
  bool had_before = false;
  double error_before = 0;  // mean error of the profile's curve on the same points
};

struct RunReport {
  std::string what;  // "minimax-h3, tp2 x ulysses4, sglang"
  std::string from;
  double measured = 0, before = 0, after = 0;  // seconds a step
};

struct Calibration {
  DeviceRates device;  // as the profile was where no run was given
  FabricRates fabric;
  bool device_fitted = false, fabric_fitted = false;
  double compute_factor = 1, attention_factor = 1;
  std::vector<CurveReport> curves;
  std::vector<RunReport> runs;
  std::vector<KernelReport> kernels;
  std::vector<std::string> notes;  // rows left out and why
};

// device: a profile's name. fabric: a profile's name, or a new one; "": that of the first
// machine with the device, or of the machine a probe ran on; a device that starts from
// another gets a fabric of its own name from a probe. like: the profile a new device starts
// from; "": `device` itself where it exists, else the device a probe ran on.
Calibration calibrate(const Catalog& catalog, const std::string& device,
                      const std::string& like, const std::string& fabric,
                      const std::vector<CalibrationInput>& inputs);

// The report for people. The files are write_device and write_fabric of the result.
std::string calibration_text(const Calibration& calibration);

}  // namespace hpplan
