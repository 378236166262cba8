// Memory of the fullest rank by stage (load, text encode, denoise, decode), and of the host while loading.
//
// Symbols as in cost.h; e bytes of an activation, w bytes of a weight.
//   weights     = transformers * (divided/T * w + adaln/(T if the engine divides it) * w + whole * e)
//   activations = factor * m * (6D + 3(A/T)(2 with ulysses) + 3(F/T)(2 if gated)) * e   factor: of the engine
//   K/V         = gathered: 2*S*kv_heads*d*e whatever the ring degree; p2p: two chunks of 2*(S/R)*kv_heads*d*e
//   merge       = fp32 output and LSE of a ring: 2*q*heads*(d+1)*4 B
//   communicators = one a device group above size 1, and the world's (NCCL: 544 MB of 2 ranks, 688 MB of more)
// Text encoder and decoder stand where the engine keeps them (Engine::components); the parts say so.
#pragma once

#include "planner/problem.h"
#include "planner/spec/plan.h"

namespace hpplan {

MemoryEstimate estimate_memory(const Problem& problem, const Degrees& degrees, RingMethod method,
                               const Split& split);

}  // namespace hpplan
