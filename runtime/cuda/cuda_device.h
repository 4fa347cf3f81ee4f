// CUDA devices: the GPUs of a driver, as Devices. The driver is opened at run time; every call works in the device's primary
// context, shared with other users of the GPU in this process (PyTorch, say), and leaves the caller's current context as it was.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/device.h"

namespace headnorm {

// Which driver: NVIDIA's, or another library with the same functions.
struct CudaDriverOptions {
  std::string library = "libcuda.so.1";
  std::string kind = "cuda";            // DeviceInfo::kind; the devices' ids are "kind:0", "kind:1", ...
  std::vector<std::string> names = {};  // in the place of those numbers, for the devices that have one here
  // Names of nvJitLink, tried in order; none: kernels stay PTX (a driver that takes nothing else).
  std::vector<std::string> linkers = {"libnvJitLink.so.13", "libnvJitLink.so.12"};
};

// The devices in the driver's order. Errors (environment): no driver, or one that has no device.
Result<std::vector<DeviceInfo>> list_cuda_devices(const CudaDriverOptions& options);

// Launches without a stream of their own are queued on one of the device's. Error (user): there is no device `ordinal`.
Result<std::unique_ptr<Device>> make_cuda_device(const CudaDriverOptions& options, int ordinal);

}  // namespace headnorm
