#include "planner/memory.h"

#include <algorithm>

namespace hpplan {
namespace {

// First use of a communicator, as reported for NCCL.
constexpr double kPairCommunicator = 544e6;
constexpr double kGroupCommunicator = 688e6;

Bytes communicators(const Problem& p, const Degrees& degrees) {
  if (p.topology.vendor != "nvidia" && p.topology.vendor != "amd") return Bytes(0);
  const auto one = [](std::int64_t n) { return n <= 1 ? 0.0 : n == 2 ? kPairCommunicator : kGroupCommunicator; };
  double bytes = one(degrees.product());
  int axes = 0;
  for (const Axis axis : {Axis::kCfg, Axis::kRing, Axis::kUlysses, Axis::kTp}) {
    bytes += one(degrees[axis]);
    axes += degrees[axis] > 1 ? 1 : 0;
  }
  // An axis that is the whole world uses the world's communicator.
  if (axes == 1 && degrees.replica() == 1) bytes -= one(degrees.product());
  return Bytes(bytes);
}

}  // namespace

MemoryEstimate estimate_memory(const Problem& p, const Degrees& degrees, RingMethod method, const Split& split) {
  const ModelSpec& model = p.model;
  const Engine& engine = p.engine;
  const double e = p.workload.dtype == DType::kF32 ? 4 : 2;
  const double w = bytes_of(p.workload.dtype);
  const double T = degrees.tp(), U = degrees.ulysses(), R = degrees.ring();
  const double D = static_cast<double>(model.hidden), d = model.head_dim;
  const double A = static_cast<double>(model.attention_width()) / T;

  const ModelSpec::Parameters parameters = model.parameters();
  const Bytes divided(model.transformers * static_cast<double>(parameters.divided) / T * w);
  const Bytes adaln(model.transformers * static_cast<double>(parameters.adaln) / (engine.adaln_divided ? T : 1) * w);
  const Bytes whole(model.transformers * static_cast<double>(parameters.whole) * e);
  const Bytes weights = divided + adaln + whole;

  const int branches = (p.workload.branches + degrees.cfg() - 1) / degrees.cfg();
  const double batch = p.workload.batch * (engine.stack.branches_in_sequence ? 1 : branches);
  const double m = batch * static_cast<double>(split.busiest_rows);
  double mlp = 0;
  for (const BlockSpec& block : model.blocks)
    mlp = std::max(mlp, static_cast<double>(block.mlp_width) / T * (block.mlp_gated ? 2 : 1));
  const Bytes activations(engine.memory_activation_factor * m * (6 * D + 3 * A * (U > 1 ? 2 : 1) + 3 * mlp) * e);

  const double kv_heads = std::max(1.0, split.busiest_heads * static_cast<double>(model.kv_heads) / model.heads);
  const double q = static_cast<double>(split.padded_rows) / R;
  Bytes kv, merge;
  if (R > 1) {
    kv = method == RingMethod::kAllGather
             ? Bytes(2 * batch * static_cast<double>(split.padded_rows) * kv_heads * d * e)
             : Bytes(2 * 2 * batch * q * kv_heads * d * e);
    if (method == RingMethod::kP2p) merge = Bytes(2 * batch * q * split.busiest_heads * (d + 1) * 4);
  }
  const Bytes groups = communicators(p, degrees);

  MemoryEstimate memory;
  memory.limit = p.topology.device_memory - p.topology.device_reserved;
  const double ranks = static_cast<double>(degrees.product()) / degrees.replica();
  const Bytes encoder = model.text_encoder.weights / (engine.encoder_sharded ? ranks : 1);
  const Bytes decoder = model.decoder.weights;
  const bool elsewhere = engine.components == ComponentPlace::kElsewhere;
  const auto off_device = [&](Bytes needed) {
    return elsewhere || (engine.components == ComponentPlace::kHostWhenShort && needed > memory.limit);
  };
  // A decoder's activations grow with the pixels of the request; past the model's usual one it works in tiles.
  double pixels = 1;
  const ModelSpec::Default& usual = model.defaults;
  if (model.decoder.per_pixel && usual.height > 0 && usual.width > 0 && !p.workload.seq_len)
    pixels = static_cast<double>(p.workload.height) * p.workload.width * p.workload.frames * p.workload.batch /
             (static_cast<double>(usual.height) * usual.width * usual.frames * usual.batch);
  pixels = std::min(pixels, 1.0);

  // A part counts with its activations: what cannot run beside the transformer does not stay there.
  const Bytes decoding = model.decoder.activation * pixels;
  const bool decoder_off = off_device(weights + groups + decoder + decoding);
  const Bytes decoder_held = decoder_off ? Bytes(0) : decoder;
  const bool encoder_off = off_device(weights + groups + decoder_held + encoder + model.text_encoder.activation);
  const Bytes beside = (encoder_off ? Bytes(0) : encoder) + decoder_held + groups + engine.memory_fixed;

  memory.load = beside + (engine.loads_before_sharding
                              ? Bytes(static_cast<double>(parameters.total()) * e)  // one transformer, as stored
                              : weights);
  memory.text = weights + beside + (encoder_off ? Bytes(0) : model.text_encoder.activation);
  memory.denoise = weights + beside + activations + kv + merge;
  memory.decode = weights + beside + (decoder_off ? Bytes(0) : decoding);
  const std::string where = elsewhere ? " (elsewhere)" : " (on the host)";
  memory.parts = {{"weights", divided + whole},
                  {"adaln", adaln},
                  {"activations", activations},
                  {"kv", kv},
                  {"ring merge", merge},
                  {"text encoder" + (encoder_off ? where : std::string()), encoder},
                  {"decoder" + (decoder_off ? where : std::string()), decoder},
                  {"communicators", groups},
                  {"engine", engine.memory_fixed}};

  // Every process that loads a whole encoder holds it in host memory on the way.
  const double per_node = p.topology.devices_per_os_node > 0 ? p.topology.devices_per_os_node : p.topology.devices();
  const double processes = std::min(per_node, static_cast<double>(degrees.product()));
  memory.host = weights;
  if (!elsewhere) memory.host += model.text_encoder.weights * (engine.encoder_sharded ? 1 : processes);
  return memory;
}

}  // namespace hpplan
