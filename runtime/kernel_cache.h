// KernelCache: from a plan to a loaded kernel, through memory, the database's stored kernels, and the compiler if there is one.
#pragma once

#include <memory>
#include <string>

#include "core/codegen_backend.h"
#include "runtime/database/database.h"
#include "runtime/device.h"
#include "runtime/jit_mode.h"

namespace headnorm {

// Who made a stored kernel: a compiler, perhaps of another version, for a driver that perhaps took another version of PTX.
struct StoredBy {
  std::string backend;  // CodegenBackend::identity(); empty: unknown
  Target target;        // that of the record whose kernel it is
};

// Thread-safe: threads that ask for one kernel at once cause one compilation and wait for it; other kernels are not held up.
class KernelCache {
 public:
  // `database` and `backend` may be null. All must outlive the cache.
  KernelCache(Device& device, Database* database, CodegenBackend* backend, JitMode mode);
  ~KernelCache();

  // `stored_by`, of the kernel kept with a record: what it made of this plan serves where this process cannot compile. There a
  // kernel stored for another version of PTX serves, too, if the driver takes it: the kernel's plan then has another target than
  // this one. Errors: of the compiler (to all who wait for it; the next call tries again), of loading, or user/environment if no
  // stored kernel serves and compiling is forbidden or impossible.
  Result<std::shared_ptr<const LoadedKernel>> get(const Plan& plan, const StoredBy& stored_by = {});

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
