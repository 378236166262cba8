#include "runtime/probe.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "planner/spec/error.h"
#include "runtime/accelerators.h"
#include "runtime/attention_kernels.h"
#include "runtime/timings.h"

namespace hpplan::runtime {
namespace {

using Clock = std::chrono::steady_clock;
using Op = hpplan::Collective;

// Bytes of a collective: from, at least to, at most.
constexpr double kLeastSize = 4096, kEnoughSize = 1 << 20, kMostSize = 64 << 20;
// How many times the shortest time the longest of a series must be for a bandwidth to
// show behind the latency.
constexpr double kGrowth = 4;
constexpr double kMostOperands = 2e9;  // bytes of a product
constexpr double kRound = 5e-3;  // seconds that a round of short calls takes at least
constexpr int kMostRepeats = 64;

at::ScalarType type_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return at::kFloat;
    case DType::kBf16:
      return at::kBFloat16;
    case DType::kF16:
      return at::kHalf;
    default:
      throw InputError(concat("dtype ", to_string(dtype),
                              ": hprun computes in f32, bf16 or f16; probe a plan made "
                              "with --dtype of those"));
  }
}

// One call to time. Nothing is allocated before its turn.
struct Job {
  std::string what;
  double work = 0;  // flops of a kernel; longer ones of a kind are expected to take as
                    // long as their work says
  std::function<std::function<void()>()> prepare;
  std::function<void(Seconds, Seconds)> put;
  std::function<bool()> needed;  // asked at its turn; empty: yes
};

class Timer {
 public:
  Timer(const DeviceMesh& mesh, const ProbeOptions& options)
      : mesh_(mesh), options_(options) {}

  // Median and spread of one call; all ranks call at once.
  std::pair<Seconds, Seconds> time(const std::function<void()>& call) const {
    for (int i = 0; i < options_.warmup; ++i) call();
    // Everybody must repeat as often as the others: by the slowest rank's time.
    const double once = slowest(mesh_, {round(call, 1)})[0];
    const int repeats =
        std::clamp(static_cast<int>(kRound / std::max(once, 1e-9)), 1, kMostRepeats);
    std::vector<double> own;
    for (int i = 0; i < options_.iterations; ++i) own.push_back(round(call, repeats));
    const std::vector<double> all = slowest(mesh_, own);
    return {Seconds(median(all)), Seconds(spread(all))};
  }

 private:
  double round(const std::function<void()>& call, int repeats) const {
    synchronize(mesh_.device());
    mesh_.world().barrier();
    const auto start = Clock::now();
    for (int i = 0; i < repeats; ++i) call();
    synchronize(mesh_.device());
    return std::chrono::duration<double>(Clock::now() - start).count() / repeats;
  }

  const DeviceMesh& mesh_;
  const ProbeOptions& options_;
};

// Groups of ranks along some axes, as devices of the machine.
std::vector<std::vector<int>> groups_of(const Mesh& mesh, const std::vector<Axis>& axes) {
  std::set<std::vector<int>> unique;
  for (int rank = 0; rank < mesh.size(); ++rank) {
    std::vector<int> group =
        axes.size() == 1 ? mesh.group(rank, axes[0]) : mesh.group(rank, axes);
    for (int& member : group) member = mesh.devices()[static_cast<std::size_t>(member)];
    unique.insert(std::move(group));
  }
  return {unique.begin(), unique.end()};
}

// The plan's own sizes and steps of four to the largest of any use, in order; `enough` is
// where the steps may end once the bandwidth shows.
std::vector<double> sizes_around(std::vector<double> planned, double& enough) {
  enough = kEnoughSize;
  for (double& size : planned)
    enough = std::max(enough, size = std::min(size, kMostSize));
  std::vector<double> sizes = std::move(planned);
  for (double size = kLeastSize; size <= kMostSize; size *= 4) sizes.push_back(size);
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

// Whether the last time is well above what most sizes take.
bool bandwidth_shows(const std::vector<BenchPoint>& points) {
  std::vector<double> times;
  for (const BenchPoint& point : points) times.push_back(point.time.value);
  return times.back() >= kGrowth * median(times);
}

// The sizes of a plan's step; symbols as in the planner's cost model.
struct Shapes {
  double e, B, D, A, K,
      d;  // bytes of an element, batch, hidden, widths of Q and of K, head_dim
  double T, R, U;
  double local, q, all;  // rows of a rank, of a ring chunk, of all
  explicit Shapes(const Plan& p)
      : e(bytes_of(p.workload.dtype)),
        B(p.workload.batch),
        D(static_cast<double>(p.model.hidden)),
        A(static_cast<double>(p.model.attention_width())),
        K(static_cast<double>(p.model.kv_width())),
        d(p.model.head_dim),
        T(p.chosen.mesh.degrees().tp()),
        R(p.chosen.mesh.degrees().ring()),
        U(p.chosen.mesh.degrees().ulysses()),
        local(static_cast<double>(p.chosen.split.busiest_rows)),
        q(local * U),
        all(static_cast<double>(p.chosen.split.rows)) {}
};

class Probe {
 public:
  Probe(const Plan& plan, const DeviceMesh& mesh, const ProbeOptions& options,
        Microbench& into)
      : plan_(plan),
        mesh_(mesh),
        options_(options),
        into_(into),
        shapes_(plan),
        tensors_(at::TensorOptions(type_of(plan.workload.dtype)).device(mesh.device())) {}

  void run() {
    const Shapes& s = shapes_;
    const double rows = s.B * s.local;
    exchange("tp", mesh_.group(Axis::kTp), {Axis::kTp}, Op::kAllReduce,
             {rows * s.D * s.e});
    const double sent = rows * s.A / s.T * s.e;  // of Q, of K, of V, of the result
    exchange("ulysses", mesh_.group(Axis::kUlysses), {Axis::kUlysses}, Op::kAllToAll,
             {sent, 3 * sent});
    const double chunk = 2 * s.B * s.q * s.K / (s.T * s.U) * s.e;
    exchange("ring", mesh_.group(Axis::kRing), {Axis::kRing}, Op::kShift, {chunk});
    exchange("ring", mesh_.group(Axis::kRing), {Axis::kRing}, Op::kAllGather,
             {s.R * chunk});
    if (s.R > 1 && s.U > 1)
      exchange("sequence", mesh_.sequence(), {Axis::kRing, Axis::kUlysses},
               Op::kAllGather, {s.R * s.U * rows * s.D * s.e});
    exchange("cfg", mesh_.group(Axis::kCfg), {Axis::kCfg}, Op::kAllGather,
             {rows * s.D * s.e});
    products();
    attention();
    copies();

    const Timer timer(mesh_, options_);
    double rate = 0;  // flops a second of the kind's last job
    std::string kind;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      const Job& job = jobs_[i];
      const std::string of = job.what.substr(0, job.what.find(' '));
      if (of != std::exchange(kind, of)) rate = 0;
      const double expected = rate > 0 ? job.work / rate : 0;
      const bool needed = !job.needed || job.needed();
      if (needed && expected > options_.longest) {
        if (options_.note)
          options_.note(
              concat(job.what, " left out: it would take about ", expected, " s a call"));
      } else if (needed) {
        const auto [time, spread] = timer.time(job.prepare());
        if (job.work > 0) rate = job.work / time.value;
        job.put(time, spread);
      }
      if (options_.progress)
        options_.progress(static_cast<int>(i) + 1, static_cast<int>(jobs_.size()));
    }
    gather_series();
  }

 private:
  std::int64_t elements(double bytes, int of) const {
    return std::max<std::int64_t>(1, std::llround(bytes / shapes_.e / of)) * of;
  }

  void exchange(const std::string& axis, const Group& group,
                const std::vector<Axis>& axes, Op op, std::vector<double> planned) {
    if (group.size() == 1) return;
    const int n = group.size();
    const auto groups = groups_of(mesh_.mesh(), axes);
    for (const CollectiveSeries& known : into_.collectives)
      if (known.op == op && known.groups == groups) return;
    const std::size_t at = into_.collectives.size();
    into_.collectives.push_back({op, n, axis, groups, {}, 0});
    std::int64_t before = 0;
    double enough = 0;
    for (const double size : sizes_around(std::move(planned), enough)) {
      const std::int64_t count = elements(size, n);
      if (count == std::exchange(before, count)) continue;
      Job job;
      job.what = concat(to_string(op), " on ", axis, " of ", count * shapes_.e, " bytes");
      job.prepare = [this, group, op, count, n]() -> std::function<void()> {
        const bool part = op == Op::kAllGather;
        const at::Tensor x = at::zeros({part ? count / n : count}, tensors_);
        switch (op) {
          case Op::kAllReduce:
            return [=] { group.all_reduce(x); };
          case Op::kAllToAll:
            return [=] { group.all_to_all(x); };
          case Op::kShift:
            return [=] { group.shift(x); };
          default:
            return [=] { group.all_gather(x, 0); };
        }
      };
      // Every rank knows the same times, so all decide alike.
      if (size > enough)
        job.needed = [this, at] {
          return !bandwidth_shows(into_.collectives[at].points);
        };
      job.put = [this, at, bytes = static_cast<double>(count) * shapes_.e](
                    Seconds time, Seconds spread) {
        into_.collectives[at].points.push_back({bytes, time, spread});
      };
      jobs_.push_back(std::move(job));
    }
  }

  // The products of the blocks at the rank's widths, and at those another tp degree would
  // give, on a part of its rows, on its rows, and on all rows.
  void products() {
    const Shapes& s = shapes_;
    std::set<std::pair<std::int64_t, std::int64_t>> widths;
    for (const double t : {s.T, s.T > 1 ? 1 : 2.0})
      for (const BlockSpec& block : plan_.model.blocks) {
        const double F = static_cast<double>(block.mlp_width),
                     wide = F * (block.mlp_gated ? 2 : 1);
        const auto add = [&](double n, double k) {
          widths.emplace(std::llround(std::ceil(n)), std::llround(std::ceil(k)));
        };
        if (block.parallel_mlp) {
          add((s.A + 2 * s.K + wide) / t, s.D);
          add(s.D, (s.A + F) / t);
        } else {
          add((s.A + 2 * s.K) / t, s.D);
          add(s.D, s.A / t);
          add(wide / t, s.D);
          add(s.D, F / t);
        }
      }
    std::set<std::int64_t> rows;
    for (const double m : {s.local / 4, s.local, s.all})
      rows.insert(std::max<std::int64_t>(1, std::llround(s.B * m)));
    std::vector<Job> jobs;
    for (const auto& width : widths)
      for (const std::int64_t m : rows) {
        const std::int64_t n = width.first, k = width.second;
        const double bytes =
            shapes_.e * (static_cast<double>(m) * static_cast<double>(k + n) +
                         static_cast<double>(n) * static_cast<double>(k));
        if (bytes > kMostOperands || known(into_.gemms, n, k, m)) continue;
        Job job;
        job.what = concat("product [", m, ", ", k, "] x [", k, ", ", n, "]");
        job.work = 2.0 * static_cast<double>(m) * static_cast<double>(n) *
                   static_cast<double>(k);
        job.prepare = [this, m, n, k]() -> std::function<void()> {
          const at::Tensor x = at::zeros({m, k}, tensors_).fill_(0.5),
                           w = at::zeros({n, k}, tensors_).fill_(0.25);
          return [=] { at::linear(x, w); };
        };
        job.put = [this, m, n, k](Seconds time, Seconds spread) {
          gemms_[{n, k}].push_back({static_cast<double>(m), time, spread});
        };
        jobs.push_back(std::move(job));
      }
    add_by_work(std::move(jobs));
  }

  bool known(const std::vector<GemmSeries>& all, std::int64_t n, std::int64_t k,
             std::int64_t m) const {
    return std::any_of(all.begin(), all.end(), [&](const GemmSeries& series) {
      return series.dtype == plan_.workload.dtype && series.n == n && series.k == k &&
             std::any_of(
                 series.points.begin(), series.points.end(),
                 [&](const BenchPoint& p) { return p.x == static_cast<double>(m); });
    });
  }

  // Heads the rank computes, and those it would with all of its tp rank's; queries of a
  // ring chunk on a part of a chunk, on a chunk, on all keys.
  void attention() {
    const Shapes& s = shapes_;
    const auto rows = [](double x) { return std::max<std::int64_t>(1, std::llround(x)); };
    const std::set<int> heads = {plan_.chosen.split.busiest_heads,
                                 plan_.chosen.split.local_heads};
    const std::set<std::pair<std::int64_t, std::int64_t>> calls = {
        {rows(s.q / 4), rows(s.q / 4)}, {rows(s.q), rows(s.q)}, {rows(s.q), rows(s.all)}};
    const auto batch = static_cast<std::int64_t>(s.B),
               width = static_cast<std::int64_t>(s.d);
    std::vector<Job> jobs;
    for (const int h : heads)
      for (const auto& call : calls) {
        const std::int64_t q = call.first, kv = call.second;
        if (known(into_.attentions, h, q, kv)) continue;
        Job job;
        job.what = concat("attention of ", q, " rows on ", kv, ", ", h, " heads");
        job.work = 4.0 * s.B * h * s.d * static_cast<double>(q) * static_cast<double>(kv);
        job.prepare = [this, batch, width, h, q, kv]() -> std::function<void()> {
          const at::Tensor queries = at::zeros({batch, q, h, width}, tensors_).fill_(0.5);
          const at::Tensor keys = at::zeros({batch, kv, h, width}, tensors_).fill_(0.25);
          const Kernel kernel = choose_kernel(queries, true);
          const double scale = 1 / std::sqrt(static_cast<double>(width));
          return [=] { attend(kernel, queries, keys, keys, scale); };
        };
        job.put = [this, h, q, kv](Seconds time, Seconds spread) {
          calls_[h].push_back(
              {static_cast<double>(q), {static_cast<double>(kv), time, spread}});
        };
        jobs.push_back(std::move(job));
      }
    add_by_work(std::move(jobs));
  }

  bool known(const std::vector<AttentionSeries>& all, int heads, std::int64_t q,
             std::int64_t kv) const {
    for (const AttentionSeries& series : all)
      if (series.heads == heads && series.batch == plan_.workload.batch &&
          series.head_dim == plan_.model.head_dim)
        for (std::size_t i = 0; i < series.points.size(); ++i)
          if (series.queries[i] == static_cast<double>(q) &&
              series.points[i].x == static_cast<double>(kv))
            return true;
    return false;
  }

  // What an elementwise pass reads and writes: rows as wide as hidden, and as the MLP.
  void copies() {
    const Shapes& s = shapes_;
    std::set<std::int64_t> counts = {elements(s.B * s.local * s.D * s.e, 1)};
    for (const BlockSpec& block : plan_.model.blocks)
      counts.insert(
          elements(s.B * s.local * static_cast<double>(block.mlp_width) / s.T * s.e, 1));
    for (const std::int64_t count : counts) {
      const double bytes = 2 * static_cast<double>(count) * s.e;
      if (bytes > kMostOperands) continue;
      const bool there = std::any_of(
          into_.copies.begin(), into_.copies.end(), [&](const CopySeries& series) {
            return std::any_of(series.points.begin(), series.points.end(),
                               [&](const BenchPoint& p) { return p.x == bytes; });
          });
      if (there) continue;
      Job job;
      job.what = concat("copy of ", count, " elements");
      job.prepare = [this, count]() -> std::function<void()> {
        const at::Tensor from = at::zeros({count}, tensors_).fill_(1);
        const at::Tensor to = at::empty_like(from);
        return [=] { to.copy_(from); };
      };
      job.put = [this, bytes](Seconds time, Seconds spread) {
        copies_.push_back({bytes, time, spread});
      };
      jobs_.push_back(std::move(job));
    }
  }

  void add_by_work(std::vector<Job> jobs) {
    std::stable_sort(jobs.begin(), jobs.end(),
                     [](const Job& a, const Job& b) { return a.work < b.work; });
    for (Job& job : jobs) jobs_.push_back(std::move(job));
  }

  void gather_series() {
    const DType dtype = plan_.workload.dtype;
    for (auto& [width, points] : gemms_)
      into_.gemms.push_back({dtype, width.first, width.second, std::move(points), 0});
    for (auto& [heads, calls] : calls_) {
      AttentionSeries series{
          dtype, plan_.workload.batch, heads, plan_.model.head_dim, {}, {}, 0};
      for (const auto& [q, point] : calls) {
        series.queries.push_back(q);
        series.points.push_back(point);
      }
      into_.attentions.push_back(std::move(series));
    }
    if (!copies_.empty()) into_.copies.push_back({std::move(copies_), 0});
  }

  const Plan& plan_;
  const DeviceMesh& mesh_;
  const ProbeOptions& options_;
  Microbench& into_;
  Shapes shapes_;
  at::TensorOptions tensors_;
  std::vector<Job> jobs_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<BenchPoint>> gemms_;
  std::map<int, std::vector<std::pair<double, BenchPoint>>> calls_;
  std::vector<BenchPoint> copies_;
};

}  // namespace

void probe_mesh(const Plan& plan, const DeviceMesh& mesh, const ProbeOptions& options,
                Microbench& into) {
  Probe(plan, mesh, options, into).run();
}

}  // namespace hpplan::runtime
