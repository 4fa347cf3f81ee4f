// Pages of the process, zeroed, readable and writable, given back when the Buffer goes.
#pragma once

#include <cstddef>

#include "core/result.h"
#include "runtime/device.h"

namespace headnorm::host {

// Aligned to a page. `bytes` may be 0. Error (environment): the system has no such amount of memory.
Result<Buffer> map_pages(std::size_t bytes);

std::size_t page_bytes();

}  // namespace headnorm::host
