// Device facts: what the driver says of a device, as far as loading and launching need it.
#pragma once

#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/driver.h"

namespace headnorm::cuda {

struct DeviceFacts {
  DeviceInfo info;
  int capability = 0;
  int max_threads_per_block = 0;
  int max_shared_bytes_per_block = 0;  // opted in to
};

// Of the device that the driver counts as `ordinal`. Errors (environment): the driver's, or a device that runs no target of ours.
Result<DeviceFacts> facts_of(const Driver& driver, const CudaDriverOptions& options, int ordinal, DeviceHandle device);

}  // namespace headnorm::cuda
