// Thread-instructions a second of the emulator, on one core by its processor time: a fused multiply-add loop, and a row sum with
// loads, shuffles and a barrier.
//
// usage: emulator_bench [SECONDS]. Prints one line a kernel and setting of the checks: million thread-instructions a second, best
// and median.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>

#include "emulator/emulator.h"

namespace {

using namespace headnorm::emulator;

constexpr const char* kHead =
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p0, .param .u64 p1)\n{\n";

constexpr const char* kArithmetic = R"(
.reg .f32 %f<4>; .reg .b32 %r<4>; .reg .b64 %d<4>; .reg .pred %p;
ld.param.u64 %d1, [p1]; mov.u32 %r1, %tid.x; cvt.rn.f32.u32 %f1, %r1; mov.f32 %f2, 0f3F7FFFFF; mov.u32 %r2, 0;
L: fma.rn.f32 %f1, %f1, %f2, %f2; fma.rn.f32 %f1, %f1, %f2, %f2; mul.rn.f32 %f3, %f1, %f2; add.rn.f32 %f1, %f1, %f3;
add.u32 %r2, %r2, 1; setp.lt.u32 %p, %r2, 500; @%p bra L;
ret;
})";

// 16 bytes a load, as the kernels of the generator: 8 loads a thread, then a sum over the block.
constexpr const char* kRowSum = R"(
.reg .f32 %f<16>; .reg .b32 %r<16>; .reg .b64 %d<8>; .reg .pred %p; .shared .align 16 .b8 s[128];
ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mul.wide.u32 %d3, %r1, 16; add.u64 %d4, %d1, %d3;
mov.f32 %f1, 0f00000000; mov.u32 %r3, 0;
L: ld.global.v4.f32 {%f2, %f3, %f4, %f5}, [%d4]; fma.rn.f32 %f1, %f2, %f2, %f1; fma.rn.f32 %f1, %f3, %f3, %f1; fma.rn.f32 %f1, %f4, %f4, %f1; fma.rn.f32 %f1, %f5, %f5, %f1;
add.u64 %d4, %d4, 4096; add.u32 %r3, %r3, 1; setp.lt.u32 %p, %r3, 8; @%p bra L;
shfl.sync.bfly.b32 %f6, %f1, 16, 31, -1; add.f32 %f1, %f1, %f6; shfl.sync.bfly.b32 %f6, %f1, 8, 31, -1; add.f32 %f1, %f1, %f6; shfl.sync.bfly.b32 %f6, %f1, 4, 31, -1; add.f32 %f1, %f1, %f6;
shfl.sync.bfly.b32 %f6, %f1, 2, 31, -1; add.f32 %f1, %f1, %f6; shfl.sync.bfly.b32 %f6, %f1, 1, 31, -1; add.f32 %f1, %f1, %f6;
and.b32 %r4, %r1, 31; setp.ne.u32 %p, %r4, 0; shr.u32 %r5, %r1, 3; and.b32 %r5, %r5, 124; mov.u32 %r6, s; add.u32 %r6, %r6, %r5; @!%p st.shared.f32 [%r6], %f1; bar.sync 0;
ld.shared.v4.f32 {%f2, %f3, %f4, %f5}, [s]; add.f32 %f1, %f2, %f3; add.f32 %f1, %f1, %f4; add.f32 %f1, %f1, %f5;
setp.ne.u32 %p, %r1, 0; mul.wide.u32 %d5, %r2, 4; add.u64 %d5, %d2, %d5; @!%p st.global.f32 [%d5], %f1;
ret;
})";

void measure(const char* name, const char* body, const LaunchOptions& options, const char* setting, double seconds) {
  Device device(Model::a100);
  const auto module = device.load(std::string(kHead) + body);
  if (!module.ok()) return fmt::print("{}: {}\n", name, module.message());
  const std::uint64_t in = device.allocate(32768), out = device.allocate(4096);
  device.fill(in, 32768, 0);
  LaunchShape shape;
  shape.grid = {64, 1, 1};
  shape.block = {256, 1, 1};
  std::vector<double> rates;
  // Processor time, not the clock on the wall: other programs on the machine do not count.
  const auto processor_seconds = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
  const double begin = processor_seconds();
  while (rates.size() < 5 || processor_seconds() - begin < seconds) {
    const double start = processor_seconds();
    const LaunchResult result = device.launch(**module, "k", shape, pack_parameters((*module)->facts("k"), {in, out}), options);
    if (result.fault) return fmt::print("{}: {}\n", name, to_text(*result.fault));
    rates.push_back(static_cast<double>(result.counters.thread_instructions()) / (processor_seconds() - start) / 1e6);
  }
  std::sort(rates.begin(), rates.end());
  fmt::print("{:<12} {:<12} best {:>7.1f}  median {:>7.1f}  million thread-instructions a second\n", name, setting, rates.back(),
             rates[rates.size() / 2]);
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 2;
  LaunchOptions all, few;
  few.checks = {Check::off, Check::off, Check::off, Check::off};
  measure("arithmetic", kArithmetic, all, "all checks", seconds);
  measure("arithmetic", kArithmetic, few, "few checks", seconds);
  measure("row sum", kRowSum, all, "all checks", seconds);
  measure("row sum", kRowSum, few, "few checks", seconds);
  return 0;
}
