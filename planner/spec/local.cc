#include "planner/spec/local.h"

#include <sched.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "planner/spec/error.h"

namespace hpplan {
namespace {

// Lines of `nvidia-smi --query-gpu=name,memory.total`, empty without driver or GPU.
std::vector<std::pair<std::string, double>> gpus() {
  std::vector<std::pair<std::string, double>> found;
  if (access("/proc/driver/nvidia/version", R_OK) != 0) return found;
  FILE* pipe = popen("nvidia-smi --query-gpu=name,memory.total --format=csv,noheader,nounits 2>/dev/null", "r");
  if (pipe == nullptr) return found;
  std::array<char, 512> line;
  while (std::fgets(line.data(), line.size(), pipe) != nullptr) {
    const std::string text = line.data();
    const std::size_t comma = text.rfind(',');
    double mib = 0;
    if (comma != std::string::npos && std::sscanf(text.c_str() + comma + 1, "%lf", &mib) == 1)
      found.emplace_back(text.substr(0, comma), mib);
  }
  return pclose(pipe) == 0 ? found : std::vector<std::pair<std::string, double>>{};
}

// Device rates and fabric of a GPU by its marketing name; a switch is not visible from here, so a scale-up
// domain is assumed only for the parts that come with one.
struct Part {
  const char* text;
  const char* device;
  const char* fabric;
};
constexpr std::array<Part, 10> kParts = {{{"H200", "h200", "nvs-h200"},
                                          {"H100", "h100", "nvs-h100"},
                                          {"H20", "h20", "nvs-h20"},
                                          {"B300", "b300", "nvs-b300"},
                                          {"B200", "b200", "nvs-b200"},
                                          {"A100-SXM", "a100", "nvs-a100"},
                                          {"L40S", "l40s", "pcie4-p2p"},
                                          {"L20", "l20", "pcie4-p2p"},
                                          {"4090", "rtx4090", "pcie-nop2p"},
                                          {"5090", "rtx5090", "pcie-nop2p"}}};

int cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
}

Topology gpu_topology(const std::vector<std::pair<std::string, double>>& found, int devices) {
  for (const Part& part : kParts) {
    if (found[0].first.find(part.text) == std::string::npos) continue;
    Topology t;
    t.name = "local";
    t.title = concat("this machine, ", found.size(), " x ", found[0].first);
    t.vendor = "nvidia";
    t.device = part.device;
    t.fabric = part.fabric;
    t.device_memory = Bytes(found[0].second * 1024 * 1024);
    t.levels = {Level{.name = "gpu", .size = devices, .kind = LinkKind::kSwitch}};
    t.peer_access = std::string(part.fabric).substr(0, 3) == "nvs" ? PeerAccess::kNotApplicable : PeerAccess::kUnknown;
    return t;
  }
  throw InputError({"--topology"}, "local", concat("no rates are known for '", found[0].first,
                                                   "'; write a topology file with `device:` (hpplan list devices)"));
}

}  // namespace

int local_devices() {
  const auto found = gpus();
  return found.empty() ? cores() : static_cast<int>(found.size());
}

Topology local_topology(std::optional<int> devices) {
  constexpr int kMost = 1024;
  if (devices && (*devices < 1 || *devices > kMost))
    throw InputError({"--devices"}, "", concat("expected 1 to ", kMost, " local ranks, got ", *devices));
  const auto found = gpus();
  if (!found.empty()) {
    const int have = static_cast<int>(found.size());
    if (devices.value_or(have) > have)
      throw InputError({"--devices"}, "", concat("this machine has ", have, " GPUs, ", *devices, " were asked for"));
    return gpu_topology(found, devices.value_or(have));
  }
  Topology t;
  t.name = "local";
  t.title = "this machine's CPU cores, Gloo over loopback";
  t.vendor = "cpu";
  t.device = "cpu";
  t.fabric = "gloo-loopback";
  const int n = devices.value_or(cores());
  t.levels = {Level{.name = "core", .size = n, .kind = LinkKind::kShared}};
  const double memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  t.host_memory = Bytes(memory);
  t.device_memory = Bytes(memory / n);
  return t;
}

}  // namespace hpplan
