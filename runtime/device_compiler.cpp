#include "runtime/device_compiler.h"

#include "core/digest.h"

namespace headnorm {

std::string device_code_key(const std::string& portable_key, const std::string& compiler_identity) {
  return DigestBuilder().add("portable", portable_key).add("compiler", compiler_identity).hex();
}

}  // namespace headnorm
