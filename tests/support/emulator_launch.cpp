#include "tests/support/emulator_launch.h"

#include <map>

namespace headnorm::test {
namespace {

// A tensor's copy on the device: from its first element to its last, gaps between rows with it, as aligned as on the host.
struct DeviceCopy {
  std::uint64_t address = 0, bytes = 0;
};

DeviceCopy copy_to(emulator::Device& device, Tensor& tensor, std::int64_t elements_of_row) {
  const auto host = reinterpret_cast<std::uintptr_t>(tensor.address());
  const std::int64_t elements = (tensor.rows() - 1) * tensor.stride() + elements_of_row;
  DeviceCopy copy;
  copy.bytes = static_cast<std::uint64_t>(elements * size_bytes(tensor.dtype()));
  constexpr std::uint64_t kLine = 64;
  copy.address = device.allocate(copy.bytes + host % kLine) + host % kLine;
  device.write(copy.address, tensor.address(), copy.bytes);
  return copy;
}

}  // namespace

emulator::Model emulated_model(const Target& target) {
  for (emulator::Model model : emulator::all_models()) {
    if (target.sm <= emulator::device_model(model).sm) return model;
  }
  return emulator::Model::rtx5090;
}

Result<emulator::Counters> run_emulated(const Artifact& artifact, const Plan& plan, LaunchTensors& tensors,
                                        const emulator::LaunchOptions& options, std::int64_t grid) {
  emulator::Device device(emulated_model(plan.target));
  const auto module = device.load(artifact.bytes);
  if (!module.ok()) return internal_error(module.message());

  std::map<Tensor*, DeviceCopy> copies;
  std::vector<std::uint64_t> parameters;
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
    if (!copies.contains(&tensor)) copies[&tensor] = copy_to(device, tensor, operand_elements(plan.spec, parameter.operand));
    parameters.push_back(copies[&tensor].address);
  }
  const std::string name = (*module)->kernel_names()[0];
  // An array may be followed by what aligns the next to 16 bytes, or not.
  const std::uint64_t declared = (*module)->facts(name).static_shared_bytes;
  const auto planned = static_cast<std::uint64_t>(plan.gpu().shared_bytes);
  if (declared >= planned + 16 || declared + 16 <= planned) return internal_error("not the static shared memory of the plan");
  emulator::LaunchShape shape;
  shape.grid.x = static_cast<std::uint32_t>(grid != 0 ? grid : grid_blocks(plan, tensors.rows()));
  shape.block.x = static_cast<std::uint32_t>(plan.gpu().block_threads);
  shape.dynamic_shared_bytes = static_cast<std::uint64_t>(plan.gpu().dynamic_shared_bytes);
  const emulator::LaunchResult result =
      device.launch(**module, name, shape, emulator::pack_parameters((*module)->facts(name), parameters), options);
  for (auto& [tensor, copy] : copies) device.read(tensor->address(), copy.address, copy.bytes);
  if (result.fault) return internal_error(to_text(*result.fault));
  return result.counters;
}

std::string run_ptx(CodegenBackend& backend, const Plan& plan, LaunchTensors& tensors, emulator::Order order, std::int64_t grid) {
  const Result<Artifact> artifact = backend.compile(plan);
  if (!artifact.ok()) return artifact.error().message;
  emulator::LaunchOptions options;
  options.order = order;
  const Result<emulator::Counters> ran = run_emulated(*artifact, plan, tensors, options, grid);
  return ran.ok() ? "" : ran.error().message;
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

std::vector<Plan> plans_of_all_residencies(const KernelSpec& spec, const Target& target) {
  std::vector<Plan> plans = {*make_plan(spec, default_schedule(spec, target), target)};
  for (Residency residency : {Residency::registers, Residency::shared, Residency::reload}) {
    GpuSchedule schedule = plans.front().gpu_schedule();
    schedule.residency = residency;
    schedule.rows = 2;
    schedule.groups = 1;
    schedule.grid = residency == Residency::shared ? GridForm::persistent : GridForm::once;
    const Result<Plan> plan = make_plan(spec, schedule, target);
    if (plan.ok()) plans.push_back(*plan);
  }
  return plans;
}

std::string run_serving_plan(CodegenBackend& backend, const Plan& plan, LaunchTensors& tensors) {
  const bool fits = satisfies_alignment(plan, tensors.arguments());
  const Plan served = fits ? plan : *make_plan(plan.spec, unaligned_schedule(plan), plan.target);
  const Result<Artifact> artifact = backend.compile(served);
  if (!artifact.ok()) return artifact.error().message;
  const Result<emulator::Counters> ran = run_emulated(*artifact, served, tensors, {});
  return ran.ok() ? tensors.damage() : ran.error().message;
}

}  // namespace headnorm::test
