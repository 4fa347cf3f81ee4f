#include "generator/backend/nvptx/target_check.h"

#include <fmt/format.h>

namespace headnorm::nvptx {
namespace {

struct Requirement {
  const char* instruction;
  int sm;
  int ptx;
};

constexpr Requirement kRequirements[] = {
    {"shfl.sync", 70, 60},
    {"cvt.rn.bf16x2.f32", 80, 70},
    {"max.NaN.f32", 80, 70},
};

}  // namespace

Result<void> check_target(const Target& target) {
  // parse_target is the one place that knows which PTX versions go with an sm.
  const Result<Target> known = parse_target(to_text(target));
  if (!known.ok() || *known != target)
    return user_error(
        fmt::format("{} with PTX {}.{} is not a target of the PTX backend", to_text(target), target.ptx / 10, target.ptx % 10),
        "use " + target_choices());
  for (const Requirement& requirement : kRequirements) {
    if (target.sm < requirement.sm || target.ptx < requirement.ptx)
      return user_error(
          fmt::format("{} has no {}", to_text(target), requirement.instruction),
          fmt::format("use sm_{} and PTX {}.{} or later", requirement.sm, requirement.ptx / 10, requirement.ptx % 10));
  }
  return {};
}

}  // namespace headnorm::nvptx
