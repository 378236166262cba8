// Model: one transformer on one rank of a mesh. It holds this rank's shard of the weights
// and computes this rank's rows; the groups it was built with carry the rest. Used in
// three calls: prepare() once a request, step() once a noise level, gather() when
// somebody wants the whole result. Every rank of the mesh makes the same calls with the
// same request.
//
// Tensors are handed over by name. "Global" ones have every row of the request and are
// equal on all ranks; "local" ones have the rows of this rank only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "planner/spec/plan.h"
#include "runtime/safetensors.h"

namespace hpplan::runtime {

class DeviceMesh;
class WeightSource;

// What this rank holds, for --verify to compare with the plan.
struct LocalShape {
  std::int64_t rows = 0;       // held, padding included, from first_row on
  std::int64_t real_rows = 0;  // of them in the packed sequence
  std::int64_t first_row = 0;
  std::int64_t total_rows = 0;  // real rows of all ranks of the sequence
  int tp_heads = 0;             // heads whose weights are here: H / tp
  int attention_heads = 0;      // heads whose attention is computed here, with padding
  int real_heads = 0;           // the same without padding
};

class Model {
 public:
  virtual ~Model() = default;

  // Takes the layout of a request (global): computes rotary tables, embeds the text,
  // finds this rank's rows. Throws InputError naming the tensor when one is missing or
  // its shape does not fit the model.
  virtual void prepare(const TensorMap& request) = 0;
  // Velocities of this rank's rows, under the names of the latents. latents: local;
  // times: global.
  virtual TensorMap step(const TensorMap& latents, const TensorMap& times) = 0;

  // Local rows of global latents, and back: gather() returns all rows, on every rank.
  virtual TensorMap local(const TensorMap& latents) const = 0;
  virtual TensorMap gather(const TensorMap& latents) const = 0;

  virtual LocalShape shape() const = 0;  // of the prepared request
  // Collectives that one step issues on this rank, "axis/kind" -> count, by the plan
  // alone.
  virtual std::map<std::string, std::int64_t> expected_collectives() const = 0;
  virtual std::int64_t weight_bytes() const = 0;  // held by this rank

  // A request with the plan's rows and seeded random embeddings: layout and "text"
  // (global), as the model's own pipeline packs them.
  virtual TensorMap random_request(const Rows& rows, const Workload& workload,
                                   std::uint64_t seed) const = 0;
  // Global shapes of the latents of the prepared request: name -> [batch, rows,
  // channels].
  virtual std::map<std::string, std::vector<std::int64_t>> latent_shapes() const = 0;

  // prepare, step and gather in one: global in (request, latents and times together),
  // global out.
  TensorMap forward(const TensorMap& inputs);
};

// The plan's model on this rank's place of the mesh. Throws InputError for a model the
// runtime does not implement, and for weights that do not fit it.
std::unique_ptr<Model> make_model(const Plan& plan, const DeviceMesh& mesh,
                                  WeightSource& weights);

}  // namespace hpplan::runtime
