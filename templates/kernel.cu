{{header}}
//
// With its self-test:   nvcc -arch={{arch}} {{entry}}.cu -o self_test && ./self_test
// Without, to link:     nvcc -arch={{arch}} -DHEADNORM_NO_SELF_TEST -c {{entry}}.cu
// Everything is f32 and rounded where it is written: __fmul_rn and its like are never contracted, whatever the compiler's options.
#ifndef __CUDACC_RTC__
#include <cuda_runtime.h>
#endif

namespace {

{{constants}}
{{helpers}}
}  // namespace

extern "C" __global__ void __launch_bounds__(kBlockThreads, 1){{attributes}}
    {{entry}}(
        {{parameters}}) {
{{body}}}

#ifndef __CUDACC_RTC__

{{launcher}}
#ifndef HEADNORM_NO_SELF_TEST

{{self_test}}
#endif  // HEADNORM_NO_SELF_TEST
#endif  // __CUDACC_RTC__
