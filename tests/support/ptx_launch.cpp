#include "tests/support/ptx_launch.h"

namespace headnorm::test {

std::string run_ptx(CodegenBackend& backend, const Plan& plan, LaunchTensors& tensors, ThreadOrder order, std::int64_t grid) {
  const Result<Artifact> artifact = backend.compile(plan);
  if (!artifact.ok()) return artifact.error().message;
  const Result<PtxMachine> machine = PtxMachine::parse(artifact->bytes);
  if (!machine.ok()) return machine.error().message;
  if (machine->shared_bytes() != (plan.gpu().shared_bytes + 15) / 16 * 16) return "not the static shared memory of the plan";
  return run_ptx(*machine, plan, tensors, order, grid);
}

std::string run_ptx(const PtxMachine& machine, const Plan& plan, LaunchTensors& tensors, ThreadOrder order, std::int64_t grid) {
  std::vector<std::uint64_t> parameters;
  std::vector<GlobalRange> memory;
  for (const Parameter& parameter : launch_parameters(plan.spec)) {
    if (parameter.kind == ParameterKind::rows) {
      parameters.push_back(static_cast<std::uint64_t>(tensors.rows()));
      continue;
    }
    Tensor& tensor = tensors.tensor(parameter.operand);
    if (parameter.kind == ParameterKind::stride) {
      parameters.push_back(static_cast<std::uint64_t>(tensor.stride()));
      continue;
    }
    const auto begin = reinterpret_cast<std::uintptr_t>(tensor.address());
    const std::int64_t elements = (tensor.rows() - 1) * tensor.stride() + operand_elements(plan.spec, parameter.operand);
    parameters.push_back(begin);
    memory.push_back(
        {begin, begin + static_cast<std::uint64_t>(elements * size_bytes(tensor.dtype())), is_output(parameter.operand)});
  }
  if (grid == 0) grid = tile_count(plan, tensors.rows());
  return machine.run({grid, plan.gpu().dynamic_shared_bytes}, parameters, memory, order);
}

bool same_outputs(LaunchTensors& a, LaunchTensors& b) {
  for (Operand operand : {Operand::y, Operand::residual_out}) {
    if (!has_operand(a.spec(), operand)) continue;
    for (std::int64_t row = 0; row < a.rows(); ++row) {
      if (a.tensor(operand).row_bytes(row) != b.tensor(operand).row_bytes(row)) return false;
    }
  }
  return true;
}

}  // namespace headnorm::test
