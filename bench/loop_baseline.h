// The plainest C++ of MH-RMSNorm, left to the compiler's loop vectoriser: what an engineer writes first, and what the generated
// kernels are compared with. Compiled with -O3 -march=native -ffast-math.
//
// Two forms: by the compiler of the build, bf16 as integers that are shifted and rounded by hand; and by Clang, bf16 as its own
// type.
#pragma once

#include <cstdint>

namespace headnorm::bench {

// Contiguous x, y [rows, width], gamma [width]; bf16 as its bits.
void loop_mh_rmsnorm(const float* x, const float* gamma, float* y, std::int64_t rows, std::int64_t width, std::int64_t head_size,
                     float eps);
void loop_mh_rmsnorm(const std::uint16_t* x, const std::uint16_t* gamma, std::uint16_t* y, std::int64_t rows, std::int64_t width,
                     std::int64_t head_size, float eps);

// The same with the compiler's own bf16 type, by Clang; false, and nothing done, where the build found no Clang.
bool loop_mh_rmsnorm_clang(const void* x, const void* gamma, void* y, std::int64_t rows, std::int64_t width, std::int64_t head_size,
                           float eps, bool bf16);

}  // namespace headnorm::bench
