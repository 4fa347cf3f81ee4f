// The loop of loop_baseline.h with the compiler's own bf16 type: the maths as it is written, all conversions left to the compiler.
// Compiled by Clang 17 or later, which has the type.
#include "bench/loop_baseline.h"
#include "bench/loop_rows.h"

namespace headnorm::bench {
namespace {

template <class T>
void run_as(const void* x, const void* gamma, void* y, std::int64_t rows, std::int64_t width, std::int64_t head_size, float eps) {
  loop_rows<Native<T>>(static_cast<const T*>(x), static_cast<const T*>(gamma), static_cast<T*>(y), rows, width, head_size, eps);
}

}  // namespace

bool loop_mh_rmsnorm_clang(const void* x, const void* gamma, void* y, std::int64_t rows, std::int64_t width, std::int64_t head_size,
                           float eps, bool bf16) {
  bf16 ? run_as<__bf16>(x, gamma, y, rows, width, head_size, eps) : run_as<float>(x, gamma, y, rows, width, head_size, eps);
  return true;
}

}  // namespace headnorm::bench
