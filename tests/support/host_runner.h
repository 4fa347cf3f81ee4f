// HostRunner: compiles a plan, loads it into the host device and runs it on tensors in guarded memory.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/codegen_backend.h"
#include "core/error_bound.h"
#include "runtime/device.h"
#include "tests/support/random_cases.h"
#include "tests/support/tensor.h"

namespace headnorm::test {

// Where an output goes in place of a tensor of its own.
enum class Alias : std::uint8_t {
  none,
  y_over_x,
  residual_out_over_residual,
  residual_out_over_x,
  inplace,  // y over x and residual_out over residual
};
const char* to_text(Alias alias);
// Whether the spec has these operands, in one dtype; residual inplace is for alias inplace alone.
bool is_allowed(const KernelSpec& spec, Alias alias);

// How the tensors of a launch lie in memory, by operand.
struct Layout {
  std::array<std::int64_t, kOperandCount> strides{};  // of row operands; 0: the width
  std::array<std::int64_t, kOperandCount> offset_bytes{};
  Alias alias = Alias::none;

  std::int64_t& stride(Operand operand) { return strides[static_cast<std::size_t>(operand)]; }
  std::int64_t& offset(Operand operand) { return offset_bytes[static_cast<std::size_t>(operand)]; }
};
std::string to_text(const Layout& layout);

enum class Addresses : std::uint8_t {
  any,      // of bytes
  aligned,  // to an element
};
// An alias that the spec allows. Half of the layouts are what a library allocates; the others have gaps of at least a guard between
// rows and start at any of `addresses`.
Layout random_layout(Random& random, const KernelSpec& spec, Addresses addresses);

// The tensors of one launch. Outputs that take the place of an input share its tensor.
class LaunchTensors {
 public:
  LaunchTensors(const KernelSpec& spec, std::int64_t rows, const Layout& layout);

  Tensor& tensor(Operand operand) { return *tensors_[place(operand)]; }
  const KernelSpec& spec() const { return spec_; }
  std::int64_t rows() const { return rows_; }
  void set_weights(const RowValues& values);
  void set_row(std::int64_t row, const RowValues& values);
  // Inputs of a row and all weights as they are now: to be taken before a launch in place.
  RowValues inputs(std::int64_t row);
  LaunchArguments arguments();
  void seal();
  // What the launch wrote besides outputs: "" or the operand whose guards or values changed.
  std::string damage();

 private:
  std::size_t place(Operand operand) const { return owner_[static_cast<std::size_t>(operand)]; }

  KernelSpec spec_;
  std::int64_t rows_;
  std::array<std::size_t, kOperandCount> owner_{};  // index of the tensor that an operand uses
  std::array<std::optional<Tensor>, kOperandCount> tensors_;
};

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
