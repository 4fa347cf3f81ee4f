// Time from a spec to its PTX, warm: spec text, default schedule, plan, sweep program, LLVM.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "generator/generator.h"

namespace {

constexpr int kWarmUp = 20, kRuns = 200;

double compile_ms(headnorm::CodegenBackend& backend, const char* spec_text, const headnorm::Target& target) {
  const auto begin = std::chrono::steady_clock::now();
  const headnorm::KernelSpec spec = *headnorm::parse_spec(spec_text);
  const auto plan = headnorm::make_plan(spec, headnorm::default_schedule(spec, target), target);
  const auto artifact = backend.compile(*plan);
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - begin;
  return artifact.ok() ? elapsed.count() : -1;
}

}  // namespace

int main() {
  const auto backend = headnorm::make_llvm_backend();
  const headnorm::Target target = headnorm::make_gpu_target(90);
  for (const char* spec : {"width=4096,head_size=256", "width=4096,head_size=256,residual=add:bf16,gate=seednorm"}) {
    const double cold = compile_ms(*backend, spec, target);
    for (int i = 0; i < kWarmUp; ++i) compile_ms(*backend, spec, target);
    std::vector<double> times;
    for (int i = 0; i < kRuns; ++i) times.push_back(compile_ms(*backend, spec, target));
    if (cold < 0 || std::any_of(times.begin(), times.end(), [](double ms) { return ms < 0; })) {
      fmt::print(stderr, "{} does not compile\n", spec);
      return 1;
    }
    std::sort(times.begin(), times.end());
    fmt::print("spec to PTX, {}: median {:.2f} ms, 20th percentile {:.2f}, 80th {:.2f}, first {:.2f} ({} runs)\n", spec,
               times[kRuns / 2], times[kRuns / 5], times[kRuns * 4 / 5], cold, kRuns);
  }
  return 0;
}
