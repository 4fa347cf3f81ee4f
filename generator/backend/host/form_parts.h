// What the forms of a host kernel share: its rows, and how the sweeps are numbered.
#pragma once

#include <limits>

#include "generator/backend/host/function_builder.h"

namespace headnorm::host {

inline constexpr std::size_t kFirstSweep = 0;
inline constexpr int kAllLines = std::numeric_limits<int>::max() / 2;

inline llvm::Value* row_begin(FunctionBuilder& b) { return b.function()->getArg(2); }
inline llvm::Value* row_end(FunctionBuilder& b) { return b.function()->getArg(3); }

inline bool prefetches(const Plan& plan, PrefetchAt place) {
  const HostSchedule& schedule = plan.host_schedule();
  return schedule.prefetch != Prefetch::none && schedule.prefetch_at == place;
}

}  // namespace headnorm::host
