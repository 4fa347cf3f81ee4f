// Runtime: look up, load and launch the best kernel known for a spec. The door for programs that use headnorm as a library.
#pragma once

#include <memory>

#include "runtime/kernel_cache.h"

namespace headnorm {

struct LaunchReport {
  Served served = Served::fallback;
  Schedule schedule;
  std::string record;  // id, or empty
  std::string from;    // where the schedule comes from, in words (describe)
};

// Thread-safe. Keeps what it looked up: the second launch of a shape touches neither files nor the compiler.
class Runtime {
 public:
  // `database` and `backend` may be null; all must outlive the runtime.
  Runtime(Device& device, Database* database, CodegenBackend* backend, JitMode mode = JitMode::allowed);
  ~Runtime();

  // Chooses and loads the kernel for this spec and row count, of tensors aligned as its plan asks for. Afterwards run() only
  // launches: it compiles, loads and reads nothing, so that it can be captured into a graph.
  Result<LaunchReport> prepare(const KernelSpec& spec, std::int64_t rows);

  // The same for exactly these tensors, whatever their alignment.
  Result<LaunchReport> prepare(const KernelSpec& spec, const LaunchArguments& arguments);

  // y (and residual_out) from x; misaligned tensors are served by the plan's unaligned schedule. A stored kernel that does not load
  // is passed over for the default schedule, once, with the reason in the database's warnings. Error (user), among others: the
  // stream is being captured and the kernel is not prepared.
  Result<LaunchReport> run(const KernelSpec& spec, const LaunchArguments& arguments);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace headnorm
