// The forms of a host schedule: in which order in time the two sweeps of the parts of all rows run (see HostForm).
#pragma once

#include "generator/backend/host/sweep.h"

namespace headnorm::host {

// Rows [row_begin, row_end) are the function's arguments 2 and 3. Each emits the loops over rows and parts; the caller returns.
void emit_reg(FunctionBuilder& builder, SweepCode& code);
void emit_rot(FunctionBuilder& builder, SweepCode& code);
void emit_pipe(FunctionBuilder& builder, SweepCode& code);
void emit_split(FunctionBuilder& builder, SweepCode& code);

}  // namespace headnorm::host
