#include "runtime/models/fused_ops.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <cmath>
#include <cstring>

#include "planner/spec/error.h"

// The row loops are compiled for the wider vector units too and picked at load time.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define HP_WIDE \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define HP_WIDE
#endif

namespace hpplan::runtime {
namespace {

constexpr std::int64_t kGrain = 16384;  // elements a task, as ATen's own loops

HP_WIDE float sum_of_squares(const float* x, std::int64_t n) {
  float lanes[16] = {};
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (int k = 0; k < 16; ++k) lanes[k] += x[i + k] * x[i + k];
  }
  float sum = 0;
  for (; i < n; ++i) sum += x[i] * x[i];
  for (const float lane : lanes) sum += lane;
  return sum;
}

HP_WIDE void scale_shift(float* out, const float* x, float factor, const float* scale,
                         const float* shift, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = x[i] * factor * scale[i] + shift[i];
}

HP_WIDE void scale_only(float* out, const float* x, float factor, const float* scale,
                        std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = x[i] * factor * scale[i];
}

HP_WIDE void multiply_add(float* x, const float* y, const float* gate, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) x[i] += gate[i] * y[i];
}

HP_WIDE void rotate(float* x, const float* cos, const float* sin, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float a = x[i], b = x[n + i];
    x[i] = a * cos[i] - b * sin[i];
    x[n + i] = b * cos[i] + a * sin[i];
  }
}

// exp by 2^k * p(r), |r| <= ln2 / 2; within 2 ulp of the library's on [-87, 88], without
// a call.
HP_WIDE void gate_silu(float* out, const float* up, const float* gate, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    float x = -gate[i];
    x = x > 88.0F ? 88.0F : (x < -87.0F ? -87.0F : x);
    const float k =
        (x * 1.44269504F + 12582912.0F) - 12582912.0F;  // to the nearest whole number
    const float r = (x - k * 0.693359375F) + k * 2.12194440e-4F;
    float p = 1.9875691500e-4F;
    p = p * r + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    p = p * (r * r) + r + 1.0F;
    const auto bits =
        static_cast<std::int32_t>((static_cast<std::int32_t>(k) + 127) << 23);
    float power;
    std::memcpy(&power, &bits, sizeof power);
    out[i] = up[i] * gate[i] / (1.0F + p * power);
  }
}

// A row as floats: the row itself, or converted through `buffer`.
template <class T>
const float* load(const T* row, float* buffer, std::int64_t n) {
  if constexpr (std::is_same_v<T, float>) {
    return row;
  } else {
    for (std::int64_t i = 0; i < n; ++i) buffer[i] = static_cast<float>(row[i]);
    return buffer;
  }
}

template <class T>
void store(T* row, const float* from, std::int64_t n) {
  if constexpr (std::is_same_v<T, float>) {
    if (row != from) std::memcpy(row, from, n * sizeof(float));
  } else {
    for (std::int64_t i = 0; i < n; ++i) row[i] = static_cast<T>(from[i]);
  }
}

float norm_factor(const float* x, std::int64_t n, double eps) {
  return 1.0F / std::sqrt(sum_of_squares(x, n) / static_cast<float>(n) +
                          static_cast<float>(eps));
}

// Calls f(row, table row) for every row of [batch, rows], in parallel; runs cover the
// rows in order.
template <class F>
void for_each_row(std::int64_t batch, std::int64_t rows, std::int64_t width,
                  const std::vector<Run>& runs, const F& f) {
  HP_CHECK(runs.empty() ? rows == 0 : runs.back().end == rows, "runs do not cover ", rows,
           " rows");
  const std::int64_t grain =
      std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(width, 1));
  at::parallel_for(0, batch * rows, grain, [&](std::int64_t begin, std::int64_t end) {
    std::size_t run = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i % rows;
      if (row == 0) run = 0;
      while (row >= runs[run].end) ++run;
      f(i, runs[run].table_row);
    }
  });
}

// Floats of one row, one buffer a thread.
float* scratch(int which, std::int64_t n) {
  thread_local std::vector<float> buffers[2];
  if (buffers[which].size() < n) buffers[which].resize(n);
  return buffers[which].data();
}

template <class F>
void dispatch(at::ScalarType type, const F& f) {
  switch (type) {
    case at::kFloat:
      return f(float{});
    case at::kBFloat16:
      return f(c10::BFloat16{});
    case at::kHalf:
      return f(c10::Half{});
    default:
      HP_CHECK(false, "rows of ", c10::toString(type));
  }
}

void check_rows(const at::Tensor& x) {
  HP_CHECK(x.dim() == 3 && x.is_contiguous(),
           "rows must be [batch, rows, width] and contiguous, given ", x.sizes());
}

std::vector<Run> one_run(const at::Tensor& x) { return {{0, x.size(1), 0}}; }

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const at::Tensor scale = weight.to(at::kFloat).unsqueeze(0);
  return rms_norm_modulated(x, one_run(x), scale, at::Tensor(), eps);
}

at::Tensor rms_norm_modulated(const at::Tensor& x, const std::vector<Run>& runs,
                              const at::Tensor& scale, const at::Tensor& shift,
                              double eps) {
  if (!x.is_cpu()) return plain_ops::rms_norm_modulated(x, runs, scale, shift, eps);
  check_rows(x);
  at::Tensor out = at::empty_like(x);
  const std::int64_t n = x.size(2);
  const float* scales = scale.const_data_ptr<float>();
  const float* shifts = shift.defined() ? shift.const_data_ptr<float>() : nullptr;
  dispatch(x.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = x.const_data_ptr<T>();
    T* to = out.mutable_data_ptr<T>();
    for_each_row(x.size(0), x.size(1), n, runs, [&](std::int64_t i, std::int64_t t) {
      const float* row = load(from + i * n, scratch(0, n), n);
      float* result =
          std::is_same_v<T, float> ? reinterpret_cast<float*>(to + i * n) : scratch(1, n);
      const float factor = norm_factor(row, n, eps);
      if (shifts != nullptr) {
        scale_shift(result, row, factor, scales + t * n, shifts + t * n, n);
      } else {
        scale_only(result, row, factor, scales + t * n, n);
      }
      store(to + i * n, result, n);
    });
  });
  return out;
}

void add_gated(at::Tensor& x, const at::Tensor& y, const std::vector<Run>& runs,
               const at::Tensor& gate) {
  if (!x.is_cpu()) return plain_ops::add_gated(x, y, runs, gate);
  check_rows(x);
  check_rows(y);
  const std::int64_t n = x.size(2);
  const float* gates = gate.const_data_ptr<float>();
  dispatch(x.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    T* to = x.mutable_data_ptr<T>();
    const T* from = y.const_data_ptr<T>();
    for_each_row(x.size(0), x.size(1), n, runs, [&](std::int64_t i, std::int64_t t) {
      float* sum = const_cast<float*>(load(to + i * n, scratch(0, n), n));
      multiply_add(sum, load(from + i * n, scratch(1, n), n), gates + t * n, n);
      store(to + i * n, sum, n);
    });
  });
}

at::Tensor add_gated_norm(at::Tensor& x, const at::Tensor& y,
                          const std::vector<Run>& runs, const at::Tensor& gate,
                          const at::Tensor& scale, const at::Tensor& shift, double eps) {
  if (!x.is_cpu()) {
    add_gated(x, y, runs, gate);
    return rms_norm_modulated(x, runs, scale, shift, eps);
  }
  check_rows(x);
  check_rows(y);
  at::Tensor out = at::empty_like(x);
  const std::int64_t n = x.size(2);
  const float* gates = gate.const_data_ptr<float>();
  const float* scales = scale.const_data_ptr<float>();
  const float* shifts = shift.const_data_ptr<float>();
  dispatch(x.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    T* to = x.mutable_data_ptr<T>();
    T* normed = out.mutable_data_ptr<T>();
    const T* from = y.const_data_ptr<T>();
    for_each_row(x.size(0), x.size(1), n, runs, [&](std::int64_t i, std::int64_t t) {
      float* sum = const_cast<float*>(load(to + i * n, scratch(0, n), n));
      multiply_add(sum, load(from + i * n, scratch(1, n), n), gates + t * n, n);
      store(to + i * n, sum, n);
      float* result = std::is_same_v<T, float> ? reinterpret_cast<float*>(normed + i * n)
                                               : scratch(1, n);
      scale_shift(result, sum, norm_factor(sum, n, eps), scales + t * n, shifts + t * n,
                  n);
      store(normed + i * n, result, n);
    });
  });
  return out;
}

void norm_rope(at::Tensor heads, const at::Tensor& weight, double eps,
               const at::Tensor& cos, const at::Tensor& sin) {
  HP_CHECK(heads.dim() == 4 && heads.stride(3) == 1,
           "heads must be [batch, rows, heads, head_dim], given ", heads.sizes());
  const std::int64_t rows = heads.size(1), count = heads.size(2), d = heads.size(3);
  const std::int64_t half = cos.defined() ? cos.size(1) : 0;
  HP_CHECK(2 * half <= d && (half == 0 || cos.size(0) == rows), "rotary table ", half,
           " of head_dim ", d);
  if (!heads.is_cpu()) return plain_ops::norm_rope(heads, weight, eps, cos, sin);
  const at::Tensor scale = weight.to(at::kFloat).contiguous();
  const float* scales = scale.const_data_ptr<float>();
  const float* cosines = half > 0 ? cos.const_data_ptr<float>() : nullptr;
  const float* sines = half > 0 ? sin.const_data_ptr<float>() : nullptr;
  const std::int64_t batch_stride = heads.stride(0), row_stride = heads.stride(1),
                     head_stride = heads.stride(2);
  dispatch(heads.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    T* base = heads.mutable_data_ptr<T>();
    const std::int64_t grain = std::max<std::int64_t>(1, kGrain / (count * d));
    at::parallel_for(
        0, heads.size(0) * rows, grain, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t row = i % rows;
            for (std::int64_t h = 0; h < count; ++h) {
              T* at = base + i / rows * batch_stride + row * row_stride + h * head_stride;
              float* x = const_cast<float*>(load(at, scratch(0, d), d));
              scale_only(x, x, norm_factor(x, d, eps), scales, d);
              if (half > 0) rotate(x, cosines + row * half, sines + row * half, half);
              store(at, x, d);
            }
          }
        });
  });
}

at::Tensor swiglu(const at::Tensor& up_gate) {
  if (!up_gate.is_cpu()) return plain_ops::swiglu(up_gate);
  const std::int64_t f = up_gate.size(-1) / 2;
  HP_CHECK(up_gate.is_contiguous(), "swiglu needs contiguous rows");
  std::vector<std::int64_t> shape = up_gate.sizes().vec();
  shape.back() = f;
  at::Tensor out = at::empty(shape, up_gate.options());
  dispatch(up_gate.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = up_gate.const_data_ptr<T>();
    T* to = out.mutable_data_ptr<T>();
    const std::int64_t rows = f == 0 ? 0 : out.numel() / f;
    at::parallel_for(
        0, rows, std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(f, 1)),
        [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            float* result = std::is_same_v<T, float>
                                ? reinterpret_cast<float*>(to + i * f)
                                : scratch(0, f);
            const float* row = load(from + 2 * i * f, scratch(1, 2 * f), 2 * f);
            gate_silu(result, row, row + f, f);
            store(to + i * f, result, f);
          }
        });
  });
  return out;
}

}  // namespace hpplan::runtime
