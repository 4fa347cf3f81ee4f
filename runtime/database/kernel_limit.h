// Keeps DB/kernels within a size: what was used last stays, the rest is made again on demand.
#pragma once

#include <cstdint>

#include "runtime/database/database.h"
#include "runtime/database/directory.h"

namespace headnorm {

struct Collected {
  int kept = 0, removed = 0;  // kernels
  std::int64_t kept_bytes = 0, removed_bytes = 0;
};

// A kernel counts as used when its entry was written or touched (mark_used). Removes the entries used longest ago, each before the
// code that it names, until the rest fits; then code that no entry names. Another process that loses a kernel to this has a miss.
// `kernels` is Trust::code. Errors: environment (the directory cannot be listed).
Result<Collected> collect_kernels(FileOps& ops, const Directory& kernels, const KernelLimit& limit);

// Notes that the entry of this artifact key was used; at most once an hour, so that reading seldom writes.
void mark_used(FileOps& ops, const Directory& kernels, const std::string& artifact_key);

}  // namespace headnorm
