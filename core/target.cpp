#include "core/target.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/text.h"

namespace headnorm {
namespace {

constexpr int kPtxVersions[] = {70, 71, 72, 73, 74, 75, 76, 77, 78, 80, 81, 82, 83, 84, 85, 86, 87, 88, 90};

const char* isa_text(HostIsa isa) {
  constexpr const char* kNames[] = {"x86-64", "x86-64-v3", "x86-64-v4", "x86-64-v4+bf16", "aarch64"};
  return kNames[static_cast<int>(isa)];
}

Target gpu_target(int sm, SmVariant variant, int lowest_ptx) {
  return {.kind = TargetKind::gpu, .isa = HostIsa::x86_64, .sm = sm, .ptx = lowest_ptx, .variant = variant};
}

bool is_ptx_version(std::int64_t version) {
  return std::find(std::begin(kPtxVersions), std::end(kPtxVersions), version) != std::end(kPtxVersions);
}

}  // namespace

std::string processor_name(const Target& target) {
  return fmt::format("sm_{}{}", target.sm, target.variant == SmVariant::a ? "a" : "");
}

const std::vector<Target>& gpu_targets() {
  static const std::vector<Target> kTargets = {gpu_target(80, SmVariant::base, 70), gpu_target(86, SmVariant::base, 71),
                                               gpu_target(89, SmVariant::base, 78), gpu_target(90, SmVariant::base, 78),
                                               gpu_target(90, SmVariant::a, 80),    gpu_target(100, SmVariant::base, 86),
                                               gpu_target(100, SmVariant::a, 86),   gpu_target(120, SmVariant::base, 87)};
  return kTargets;
}

std::string target_choices() {
  std::string text;
  for (const Target& target : gpu_targets()) text += processor_name(target) + ", ";
  for (HostIsa isa : kHostIsas) text += fmt::format("{}{}", isa_text(isa), isa == *std::prev(std::end(kHostIsas)) ? " or " : ", ");
  return text + "host";
}

int Target::max_shared_bytes() const {
  constexpr int kKiB = 1024;
  if (sm == 90 || sm == 100) return 227 * kKiB;
  return (sm == 80 ? 163 : 99) * kKiB;
}

std::string to_text(const Target& target) {
  if (target.kind == TargetKind::host) return isa_text(target.isa);
  const std::string base = processor_name(target);
  return target == make_gpu_target(target.sm, target.variant) ? base : fmt::format("{}+ptx{}", base, target.ptx);
}

Target make_gpu_target(int sm, SmVariant variant) {
  for (const Target& known : gpu_targets()) {
    if (known.sm == sm && known.variant == variant) return known;
  }
  return gpu_target(sm, variant, 0);
}
Target make_host_target(HostIsa isa) { return {.kind = TargetKind::host, .isa = isa, .sm = 0, .ptx = 0}; }

Result<Target> parse_target(std::string_view text) {
  if (text == "host") return make_host_target(detect_host_isa());
  for (HostIsa isa : kHostIsas) {
    if (text == isa_text(isa)) return make_host_target(isa);
  }
  const std::size_t plus = text.find('+');
  for (Target target : gpu_targets()) {
    if (text.substr(0, plus) != processor_name(target)) continue;
    if (plus == std::string_view::npos) return target;
    const std::string_view feature = text.substr(plus + 1);
    if (feature.substr(0, 3) == "ptx") {
      const Result<std::int64_t> version = text::parse_integer(feature.substr(3), "PTX version");
      if (version.ok() && *version >= target.ptx && is_ptx_version(*version)) {
        target.ptx = static_cast<int>(*version);
        return target;
      }
    }
    return user_error(
        fmt::format("'{}' in target '{}' is not a PTX version of {}", feature, text, processor_name(target)),
        fmt::format("use +ptx{} to +ptx{} (there is no ptx79 and no ptx89)", target.ptx, *std::prev(std::end(kPtxVersions))));
  }
  return user_error(fmt::format("'{}' is not a target", text), "use " + target_choices());
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
