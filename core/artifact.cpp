#include "core/artifact.h"

#include <fmt/format.h>

#include "core/digest.h"

namespace headnorm {

const char* to_text(ArtifactKind kind) {
  constexpr const char* kNames[] = {"object", "ptx", "cubin"};
  return kNames[static_cast<int>(kind)];
}
const char* file_extension(ArtifactKind kind) {
  constexpr const char* kExtensions[] = {"o", "ptx", "cubin"};
  return kExtensions[static_cast<int>(kind)];
}

namespace {

DigestBuilder plan_digest(const Plan& plan) {
  DigestBuilder digest;
  digest.add("spec", to_text(plan.spec)).add("schedule", to_text(plan.schedule)).add("target", to_text(plan.target));
  return digest;
}

}  // namespace

std::string artifact_key(const Plan& plan, const std::string& backend_identity) {
  return plan_digest(plan).add("backend", backend_identity).hex();
}

std::string entry_name(const Plan& plan) {
  const KernelSpec& spec = plan.spec;
  return fmt::format("headnorm_w{}_d{}_{}{}{}_{}", spec.width, spec.head_size, to_text(spec.x_dtype),
                     spec.has_residual() ? "_residual" : "", spec.has_gate() ? "_seednorm" : "",
                     plan_digest(plan).hex().substr(0, 8));
}

}  // namespace headnorm
