// CubinCompiler: the DeviceCompiler of a CUDA device. nvJitLink where one is installed that knows the GPU and is no newer than the
// driver, which would refuse its cubins; else the driver's own linker.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "runtime/cuda/handles.h"
#include "runtime/device_compiler.h"

namespace headnorm::cuda {

// `capability`: of the device, 90 for 9.0. `libraries`: names of nvJitLink to try; none: cubins are not wanted. Null: neither tool
// is there.
std::unique_ptr<DeviceCompiler> make_cubin_compiler(std::shared_ptr<const PrimaryContext> context, int capability,
                                                    std::span<const std::string> libraries);

}  // namespace headnorm::cuda
