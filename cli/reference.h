// Reference: the sweep program of a spec, evaluated in double precision, as the tuner's reference.
#pragma once

#include "core/result.h"
#include "tuner/verification.h"

namespace headnorm::cli {

// For `spec` alone.
Result<Reference> make_reference(const KernelSpec& spec);

}  // namespace headnorm::cli
