// HostRunner: compiles a plan, loads it into the host device and runs it on tensors in guarded memory.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "core/codegen_backend.h"
#include "core/error_bound.h"
#include "runtime/device.h"
#include "tests/support/launch_tensors.h"
#include "tests/support/random_cases.h"

namespace headnorm::test {

class HostRunner {
 public:
  explicit HostRunner(int threads = 1);
  ~HostRunner();

  // Compiled and loaded on first use.
  Result<std::shared_ptr<const LoadedKernel>> kernel(const Plan& plan);

  // The plan that serves these tensors: `plan`, or the one of its unaligned schedule.
  Plan serving_plan(const Plan& plan, LaunchTensors& tensors) const;

  // Runs the serving plan. Fails the test that calls it if compiling, loading or launching fails, or a guard or input is damaged.
  void run(const Plan& plan, LaunchTensors& tensors);

  CodegenBackend& backend() { return *backend_; }
  Device& device() { return *device_; }

 private:
  std::unique_ptr<CodegenBackend> backend_;
  std::unique_ptr<Device> device_;
  std::map<std::string, std::shared_ptr<const LoadedKernel>> kernels_;  // by entry name
};

// Instruction sets that this processor runs.
std::vector<HostIsa> supported_isas();

// Runs `rows` random rows in `layout` and compares each with the reference. Fails the test that calls it.
void run_random_rows(HostRunner& runner, const Plan& plan, std::int64_t rows, const Layout& layout, Random& random);

// One legal plan for every form, store kind, reciprocal root and size of tiles that the spec allows on `isa`.
std::vector<Plan> plans_of_all_forms(const KernelSpec& spec, HostIsa isa);

// "" or what is wrong first with the outputs of a row, against the reference and its bound.
std::string check_row(const Plan& plan, LaunchTensors& tensors, std::int64_t row, const RowValues& inputs);

}  // namespace headnorm::test
