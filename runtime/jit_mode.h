// JitMode: whether a kernel that is stored nowhere may be compiled.
#pragma once

#include <cstdint>

namespace headnorm {

enum class JitMode : std::uint8_t {
  allowed,    // compile on a miss
  forbidden,  // a miss is an error that names the kernel and how to make it
};

}  // namespace headnorm
