// Target: where a kernel runs, as an instruction set. Facts of one device (name, SM count, clocks) are not here: see Device.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace headnorm {

enum class TargetKind : std::uint8_t { gpu, host };

enum class HostIsa : std::uint8_t {
  x86_64,          // baseline: SSE2
  x86_64_v3,       // AVX2, FMA, F16C
  x86_64_v4,       // AVX-512 F, BW, CD, DQ, VL
  x86_64_v4_bf16,  // x86-64-v4 with AVX512_BF16 (native conversion)
  aarch64,         // Armv8-A: Advanced SIMD
};

enum class SmVariant : std::uint8_t {
  base,  // runs on its own and on later processors
  a,     // may use instructions of this processor alone: never runs on another, later ones included
};

struct Target {
  TargetKind kind = TargetKind::host;
  HostIsa isa = HostIsa::x86_64;        // host
  int sm = 0;                           // gpu: 80, 90, 100
  int ptx = 0;                          // gpu: PTX ISA version times ten, 70 is 7.0
  SmVariant variant = SmVariant::base;  // gpu

  friend bool operator==(const Target&, const Target&) = default;

  // Host: bytes and number of vector registers.
  int vector_bytes() const { return has_avx512() ? 64 : isa == HostIsa::x86_64_v3 ? 32 : 16; }
  int vector_registers() const { return isa == HostIsa::x86_64 || isa == HostIsa::x86_64_v3 ? 16 : 32; }

  // Host: instructions. Conversions are those between f32 and the 16-bit dtype.
  bool has_fma() const { return isa != HostIsa::x86_64; }
  bool has_native_f16() const { return isa != HostIsa::x86_64; }
  bool has_native_bf16() const { return isa == HostIsa::x86_64_v4_bf16; }
  bool has_avx512() const { return isa == HostIsa::x86_64_v4 || isa == HostIsa::x86_64_v4_bf16; }

  // Host: streaming stores. On x86-64 they need natural alignment and pass the stores before and after them; on aarch64 they are
  // ordinary stores with a hint.
  int streaming_alignment(int bytes) const { return isa == HostIsa::aarch64 ? 1 : bytes < vector_bytes() ? bytes : vector_bytes(); }
  bool streaming_needs_fence() const { return isa != HostIsa::aarch64; }

  // GPU: bytes of the widest access to global memory, and of shared memory that a block can have.
  int max_access_bytes() const { return sm >= 100 && ptx >= 88 ? 32 : 16; }
  int max_shared_bytes() const;

  // GPU: instructions that only some targets have. Copies to shared memory by each thread every target has.
  bool has_clusters() const { return sm >= 90 && ptx >= 78; }  // and shared memory of the other blocks
  bool has_bulk_copies() const { return sm >= 90 && ptx >= 80; }
  bool has_dependent_launch() const { return sm >= 90 && ptx >= 78; }
  bool has_cache_policies() const { return ptx >= 74; }
  // Sums and products of two f32 at a time. sm_120 takes them, too, and computes each half by an instruction of its own.
  bool has_packed_f32() const { return sm == 100 && ptx >= 86; }
};

// Canonical text: "sm_90", "sm_90a", "sm_90+ptx86" (a PTX version above the target's lowest), "x86-64", "x86-64-v4+bf16",
// "aarch64".
std::string to_text(const Target& target);

// Also takes "host": the best instruction set of the machine that runs this.
Result<Target> parse_target(std::string_view text);

// With the lowest PTX version that knows it; must be one of gpu_targets().
Target make_gpu_target(int sm, SmVariant variant = SmVariant::base);
Target make_host_target(HostIsa isa);

std::string processor_name(const Target& target);  // of a GPU target: "sm_90a"
const std::vector<Target>& gpu_targets();          // each with its lowest PTX version
// "sm_80, sm_86, ..., aarch64 or host", for messages.
std::string target_choices();

inline constexpr HostIsa kHostIsas[] = {HostIsa::x86_64, HostIsa::x86_64_v3, HostIsa::x86_64_v4, HostIsa::x86_64_v4_bf16,
                                        HostIsa::aarch64};

// What every processor runs that runs this.
#if defined(__aarch64__)
inline constexpr HostIsa kBaselineIsa = HostIsa::aarch64;
#else
inline constexpr HostIsa kBaselineIsa = HostIsa::x86_64;
#endif

// Whether the machine that runs this can execute code for `isa`; and the best that it can.
bool host_supports(HostIsa isa);
HostIsa detect_host_isa();

}  // namespace headnorm
