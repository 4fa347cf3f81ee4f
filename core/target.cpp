#include "core/target.h"

#include <fmt/format.h>

#include "core/text.h"

namespace headnorm {
namespace {

constexpr int kMaxPtx = 90;

const char* isa_text(HostIsa isa) {
  constexpr const char* kNames[] = {"x86-64", "x86-64-v3", "x86-64-v4", "x86-64-v4+bf16", "aarch64"};
  return kNames[static_cast<int>(isa)];
}

int lowest_ptx(int sm) { return sm >= 90 ? 78 : 70; }

}  // namespace

std::string to_text(const Target& target) {
  if (target.kind == TargetKind::host) return isa_text(target.isa);
  const std::string base = fmt::format("sm_{}", target.sm);
  return target.ptx == lowest_ptx(target.sm) ? base : fmt::format("{}+ptx{}", base, target.ptx);
}

Target make_gpu_target(int sm) { return {.kind = TargetKind::gpu, .isa = HostIsa::x86_64, .sm = sm, .ptx = lowest_ptx(sm)}; }
Target make_host_target(HostIsa isa) { return {.kind = TargetKind::host, .isa = isa, .sm = 0, .ptx = 0}; }

Result<Target> parse_target(std::string_view text) {
  if (text == "host") return make_host_target(detect_host_isa());
  for (HostIsa isa : kHostIsas) {
    if (text == isa_text(isa)) return make_host_target(isa);
  }
  const std::size_t plus = text.find('+');
  for (int sm : kGpuTargets) {
    if (text.substr(0, plus) != fmt::format("sm_{}", sm)) continue;
    Target target = make_gpu_target(sm);
    if (plus == std::string_view::npos) return target;
    const std::string_view feature = text.substr(plus + 1);
    if (feature.substr(0, 3) == "ptx") {
      HEADNORM_TRY(const std::int64_t version, text::parse_integer(feature.substr(3), "PTX version"));
      if (version >= target.ptx && version <= kMaxPtx) {
        target.ptx = static_cast<int>(version);
        return target;
      }
    }
    return user_error(fmt::format("'{}' in target '{}' is not a PTX version of sm_{}", feature, text, sm),
                      fmt::format("use +ptx{} to +ptx{}", target.ptx, kMaxPtx));
  }
  return user_error(fmt::format("'{}' is not a target", text),
                    "use sm_80, sm_90, x86-64, x86-64-v3, x86-64-v4, x86-64-v4+bf16, aarch64 or host");
}

bool host_supports(HostIsa isa) {
  if (isa == kBaselineIsa) return true;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") &&
                  __builtin_cpu_supports("f16c");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (isa == HostIsa::x86_64_v3) return v3;
  if (isa == HostIsa::x86_64_v4) return v4;
  if (isa == HostIsa::x86_64_v4_bf16) return v4 && __builtin_cpu_supports("avx512bf16");
#endif
  return false;
}

HostIsa detect_host_isa() {
  HostIsa best = kBaselineIsa;
  for (HostIsa isa : kHostIsas) {
    if (host_supports(isa)) best = isa;
  }
  return best;
}

}  // namespace headnorm
