// Device copy: the plain copy that kernels on a GPU are paired with, the driver's own within its memory.
#pragma once

#include <memory>

#include "tuner/measure.h"

namespace headnorm {

// Cold: source and destination move on through buffers that hold twice the last level cache together. Warm: the same bytes again
// and again. `device` must outlive the copy and measure copies (Device::measure_copy_us). Error: of the device's memory.
Result<std::unique_ptr<CopyReference>> make_device_copy(Device& device, CachePolicy policy, std::int64_t largest_bytes);

}  // namespace headnorm
