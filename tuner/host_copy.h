// Host copy: the plain copy that kernels on the host CPU are paired with.
#pragma once

#include <memory>

#include "tuner/measure.h"

namespace headnorm {

// Copies with the device's number of threads, fewer where a thread would have less than 64 KiB. Cold: with non-temporal stores of
// the widest vectors of this machine, source and destination moving on through buffers of the size of the last level cache (128 MiB
// at most). Warm: memcpy, the same bytes again and again. Error: environment, out of memory.
Result<std::unique_ptr<CopyReference>> make_host_copy(const DeviceInfo& device, CachePolicy policy, std::int64_t largest_bytes);

// One such copy on the calling thread. Addresses and `bytes` are multiples of 64; the stores are in memory when it returns.
void stream_copy(void* to, const void* from, std::int64_t bytes);

}  // namespace headnorm
