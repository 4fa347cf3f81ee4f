// The activation of SeeDNorm's gate as a sequence of explicit operations, the same in every backend: no library call.
#pragma once

#include "generator/program/builder.h"

namespace headnorm::algorithm {

program::Value sigma(program::Builder& p, Sigma form, program::Value z);

}  // namespace headnorm::algorithm
