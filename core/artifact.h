// Artifact: one compiled kernel as bytes, with what is needed to load and launch it. A plain value.
#pragma once

#include <cstdint>
#include <string>

#include "core/plan.h"
#include "core/result.h"

namespace headnorm {

enum class ArtifactKind : std::uint8_t {
  object,  // ELF relocatable object with one global function, a HostKernel
  ptx,     // PTX text with one entry
  cubin,   // ELF executable for one GPU architecture, with one entry
};

const char* to_text(ArtifactKind kind);
const char* file_extension(ArtifactKind kind);  // "o", "ptx", "cubin"

struct Artifact {
  ArtifactKind kind = ArtifactKind::object;
  std::string entry;  // name of the kernel function
  std::string bytes;
  std::string key;      // artifact_key of the plan and backend that made it
  std::string backend;  // CodegenBackend::identity()
};

// Digest of everything that changes the bytes and nothing else: spec, schedule, target and backend identity.
std::string artifact_key(const Plan& plan, const std::string& backend_identity);

// Name of the kernel function: readable, and unique to the plan, e.g. "headnorm_w4096_d256_bf16_1f0c9a2b".
std::string entry_name(const Plan& plan);

}  // namespace headnorm
