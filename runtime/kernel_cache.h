// KernelCache: from a plan to a loaded kernel, through memory, the database's stored kernels, and the compiler if there is one.
#pragma once

#include <memory>
#include <string>

#include "core/codegen_backend.h"
#include "runtime/database/database.h"
#include "runtime/device.h"
#include "runtime/jit_mode.h"

namespace headnorm {

// Thread-safe: threads that ask for one kernel at once cause one compilation and wait for it; other kernels are not held up.
class KernelCache {
 public:
  // `database` and `backend` may be null. All must outlive the cache.
  KernelCache(Device& device, Database* database, CodegenBackend* backend, JitMode mode);
  ~KernelCache();

  // `stored_by` is the identity of a backend, perhaps of another version, whose stored kernel of this plan serves where this
  // process cannot compile: that of the kernel kept with a record. Errors: of the compiler (to all who wait for it; the next call
  // tries again), of loading, or user/environment if the kernel is stored nowhere and compiling is forbidden or impossible.
  Result<std::shared_ptr<const LoadedKernel>> get(const Plan& plan, const std::string& stored_by = {});

  // The same, without reading, compiling or waiting: an error unless it was got before.
  Result<std::shared_ptr<const LoadedKernel>> find(const Plan& plan) const;

  JitMode mode() const;

  struct Counters {
    int memory_hits = 0, database_hits = 0, compilations = 0;
  };
  Counters counters() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace headnorm
