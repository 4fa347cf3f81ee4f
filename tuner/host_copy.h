// Host copy: the plain non-temporal copy that kernels on the host CPU are paired with.
#pragma once

#include <memory>

#include "tuner/measure.h"

namespace headnorm {

// Copies with the widest vectors of this machine and the device's number of threads. Cold: source and destination move on through
// buffers of the size of the last level cache (128 MiB at most). Error: environment, out of memory.
Result<std::unique_ptr<CopyReference>> make_host_copy(const DeviceInfo& device, CachePolicy policy, std::int64_t largest_bytes);

}  // namespace headnorm
