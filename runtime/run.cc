#include "runtime/run.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "planner/spec/error.h"
#include "planner/spec/microbench.h"
#include "planner/spec/plan_yaml.h"
#include "runtime/accelerators.h"
#include "runtime/agreement.h"
#include "runtime/denoise.h"
#include "runtime/device_mesh.h"
#include "runtime/handshake.h"
#include "runtime/measure.h"
#include "runtime/models/h3_request.h"
#include "runtime/models/model.h"
#include "runtime/probe.h"
#include "runtime/trace.h"
#include "runtime/verify.h"
#include "runtime/watchdog.h"
#include "runtime/weight_digest.h"
#include "runtime/weights.h"

namespace hpplan::runtime {
namespace {

using Clock = std::chrono::steady_clock;

// The local launcher has the ranks agree on a free port: rank 0 opens it and tells the parent, the others wait for the
// parent's word. No port is ever chosen before it is held.
void tell_port(int port) {
  if (const char* fd = std::getenv("HPRUN_PORT_FD")) {
    const std::string text = std::to_string(port);
    if (write(std::atoi(fd), text.data(), text.size()) < 0) throw InputError("the launcher does not take the port");
    close(std::atoi(fd));
  }
}

int hear_port() {
  const char* fd = std::getenv("HPRUN_PORT_FD");
  char text[16] = {};
  if (fd == nullptr || read(std::atoi(fd), text, sizeof text - 1) <= 0)
    throw InputError("rank 0 ended before it opened the meeting place");
  return std::atoi(text);
}

Store meet(const RankEnvironment& e, std::chrono::milliseconds timeout) {
  if (e.rank == 0) {
    Store store = Store::tcp(e.master_addr, e.master_port, true, timeout);
    if (e.master_port == 0) tell_port(store.port());
    return store;
  }
  return Store::tcp(e.master_addr, e.master_port > 0 ? e.master_port : hear_port(), false, timeout);
}

int threads_of(const RunOptions& o, const RankEnvironment& e) {
  if (o.threads > 0) return o.threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / std::max(1, e.local_world));
}

class Progress {
 public:
  Progress(bool on, std::string what) : on_(on), what_(std::move(what)), start_(Clock::now()) {}
  void operator()(int done, int total) {
    if (!on_) return;
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    if (done < total && seconds - last_ < 1) return;
    last_ = seconds;
    std::fprintf(stderr, "%s %d of %d, %.1f s, about %.1f s left\n", what_.c_str(), done, total, seconds,
                 seconds / done * (total - done));
  }

 private:
  bool on_;
  std::string what_;
  Clock::time_point start_;
  double last_ = 0;
};

CommOptions comm_options(const RunOptions& o, const RankEnvironment& e) {
  CommOptions comm;
  comm.timeout = o.timeout;
  comm.device = device_of(e.local_rank, e.local_world);
  if (const char* interface = std::getenv("GLOO_SOCKET_IFNAME")) comm.interface = interface;
  else if (e.master_addr == "127.0.0.1" || e.master_addr == "localhost") comm.interface = "lo";
  return comm;
}

// One plan on a mesh that is met already.
int run_plan(const RunOptions& o, const RankEnvironment& e, const Plan& plan, const Store& store, std::size_t index) {
  const DeviceMesh mesh(plan.chosen.mesh, e.rank, store, comm_options(o, e));
  const Watchdog watchdog(store.with_own_connection(), e.rank, e.world, o.timeout, [ledger = mesh.shared_ledger()] {
    const auto last = ledger->last();
    return last ? last->str() : std::string("no collective yet");
  });

  const auto weights = o.checkpoint.empty() ? seeded_weights(o.seed) : checkpoint_weights(o.checkpoint);
  DigestingWeights digested(*weights);
  const auto model = make_model(plan, mesh, digested);
  // A slow disk is no failure; a rank that ends meanwhile is the watchdog's to name.
  compare_weights(store, mesh.mesh(), e.rank, digested, 20 * o.timeout);
  TensorMap given;
  if (!o.inputs.empty()) given = read_safetensors(o.inputs);
  const TensorMap request = o.inputs.empty() ? model->random_request(plan.rows, plan.workload, o.seed) : given;
  model->prepare(request);
  TensorMap latents = initial_noise(model->latent_shapes(), o.seed);
  for (auto& [name, noise] : latents)
    if (const auto it = given.find(name + "_latents"); it != given.end()) noise = it->second;
  const TensorMap times = h3_times(request, 0.5F, 0.5F, 0.999F);
  if (mesh.main())
    std::fprintf(stderr, "%s: %s on %d ranks, %d threads each, weights of %s, %.1f MiB a rank\n", o.plans[index].c_str(),
                 plan.chosen.mesh.degrees().str().c_str(), e.world, threads_of(o, e), weights->describe().c_str(),
                 static_cast<double>(model->weight_bytes()) / (1024 * 1024));

  if (o.verify) {
    const Verdict verdict = verify_step(plan, *model, mesh, *weights, request, latents, times);
    if (mesh.main()) {
      for (const std::string& line : verdict.lines) std::printf("%s\n", line.c_str());
      for (const std::string& failure : verdict.failures) std::printf("FAILED %s\n", failure.c_str());
      std::printf("%s\n", verdict.failures.empty() ? "verified" : "not verified");
    }
    return verdict.failures.empty() ? 0 : 1;
  }

  if (!o.measure.empty()) {
    Measurement m = measure_steps(*model, mesh, model->local(latents), times, {o.warmup, o.iterations});
    if (mesh.main()) {
      m.plan_hash = plan.hash;
      m.software = {{"hprun", HPPLAN_VERSION}, {"torch", HPPLAN_TORCH_VERSION}, {"threads", std::to_string(threads_of(o, e))}};
      char host[256] = {};
      gethostname(host, sizeof host - 1);
      m.host = host;
      write_file(o.measure[index], measurement_to_yaml(m));
      std::fprintf(stderr, "step %.6g s (median of %d, %.6g to %.6g), written to %s\n", m.step_median.value, m.iterations,
                   m.step_min.value, m.step_max.value, o.measure[index].c_str());
    }
    return 0;
  }

  std::vector<Span> spans;
  mesh.world().barrier();
  const Clock::time_point zero = Clock::now();
  Clock::time_point begun = zero;
  if (!o.trace.empty())
    mesh.ledger().observe([&](const CollectiveRecord& record) {
      if (record.done) spans.push_back({record.str(), record.axis, record.issued, *record.done});
    });
  Progress progress(mesh.main(), "step");
  DenoiseOptions denoising;
  denoising.steps = o.steps.value_or(plan.workload.steps);
  denoising.on_step = [&](int done, int total) {
    progress(done, total);
    if (!o.trace.empty()) spans.push_back({concat("step ", done), "step", begun, Clock::now()});
    begun = Clock::now();
  };
  const TensorMap out = denoise(*model, request, latents, denoising);
  mesh.ledger().observe({});
  if (!o.trace.empty()) {
    const std::string trace = merged_trace(mesh, spans, zero);
    if (mesh.main()) write_file(o.trace, trace);
  }
  if (mesh.main() && !o.outputs.empty()) write_safetensors(o.outputs, out);
  // Nobody leaves before the results are in place.
  mesh.world().barrier();
  return 0;
}

// All plans, one mesh after the other, into one file.
void probe_plans(const RunOptions& o, const RankEnvironment& e, const std::vector<Plan>& plans, const Store& store) {
  Microbench found;
  found.id = "probe";
  found.software = concat(software_version(), ", ", threads_of(o, e), " threads a rank");
  found.device = plans[0].topology.device;
  found.topology = plans[0].topology.name;
  found.devices = plans[0].topology.devices();
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  found.host = host;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const Plan& plan = plans[i];
    if (plan.topology.device != found.device || plan.topology.name != found.topology ||
        plan.topology.devices() != found.devices || plan.workload.dtype != plans[0].workload.dtype)
      throw InputError({o.plans[i]}, "topology",
                       concat("one probe is of one machine and one dtype: ", found.devices, " x ", found.device, " of ",
                              found.topology, " in ", to_string(plans[0].workload.dtype), " in ", o.plans[0], ", ",
                              plan.topology.devices(), " x ", plan.topology.device, " of ", plan.topology.name, " in ",
                              to_string(plan.workload.dtype), " here; probe it into a file of its own"));
  }
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const Plan& plan = plans[i];
    const Store own = store.prefixed(concat("plan", i));
    const DeviceMesh mesh(plan.chosen.mesh, e.rank, own, comm_options(o, e));
    const Watchdog watchdog(own.with_own_connection(), e.rank, e.world, o.timeout, [ledger = mesh.shared_ledger()] {
      const auto last = ledger->last();
      return last ? last->str() : std::string("no collective yet");
    });

    Progress progress(mesh.main(), concat(o.plans[i], ": ", plan.chosen.mesh.degrees().str(), ", probe"));
    ProbeOptions options;
    options.progress = [&](int done, int total) { progress(done, total); };
    options.note = [&](const std::string& text) {
      if (mesh.main()) std::fprintf(stderr, "%s: %s\n", o.plans[i].c_str(), text.c_str());
    };
    probe_mesh(plan, mesh, options, found);
    if (mesh.main() && i + 1 == plans.size()) {
      write_file(o.probe, microbench_to_yaml(found));
      std::fprintf(stderr, "written to %s; rates of this machine: hpplan calibrate --device NAME %s\n", o.probe.c_str(),
                   o.probe.c_str());
    }
  }
}

}  // namespace

std::string software_version() { return concat("hprun ", HPPLAN_VERSION, ", torch ", HPPLAN_TORCH_VERSION); }

int run_rank(const RunOptions& o, const RankEnvironment& e) {
  const c10::InferenceMode inference;
  at::set_num_threads(threads_of(o, e));
  // The activations of one step are the next one's: given back to the system in between, every page of them would be
  // cleared and mapped again.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  std::vector<Plan> plans;
  for (const std::string& path : o.plans) plans.push_back(read_plan(path));
  for (std::size_t i = 0; i < plans.size(); ++i)
    if (const std::string wrong = wrong_world(plans[i], e.world); !wrong.empty())
      throw InputError({o.plans[i]}, "", wrong);
  // Before the first allocation, and the same for every plan.
  const std::string device =
      device_name(device_of(e.local_rank, e.local_world), std::getenv("CUDA_VISIBLE_DEVICES"));
  const Store store = meet(e, o.timeout);
  for (std::size_t i = 0; i < plans.size(); ++i)
    shake_hands(store.prefixed(concat("hands", i)), plans[i], e.rank, software_version(), device, o.timeout);
  int code = 0;
  if (!o.probe.empty()) probe_plans(o, e, plans, store);
  for (std::size_t i = 0; o.probe.empty() && i < plans.size(); ++i)
    code = std::max(code, run_plan(o, e, plans[i], store.prefixed(concat("plan", i)), i));
  part(store, e.rank, e.world, o.timeout);
  return code;
}

}  // namespace hpplan::runtime
