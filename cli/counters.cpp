#include "cli/counters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "cli/table.h"
#include "core/counted.h"
#include "emulator/emulator.h"
#include "tuner/input_data.h"

namespace headnorm::cli {
namespace {

constexpr std::uint64_t kSectorBytes = 32;
constexpr std::uint64_t kSeed = 1;

// The operands of one launch in the device's memory, and its parameters.
class CountedLaunch {
 public:
  CountedLaunch(emulator::Device& device, const Plan& plan, std::int64_t rows)
      : device_(&device), plan_(&plan), rows_(rows), data_(plan.spec, kSeed) {}

  std::vector<std::uint64_t> parameters() {
    std::vector<std::uint64_t> values;
    for (const Parameter& parameter : launch_parameters(plan_->spec)) {
      if (parameter.kind == ParameterKind::rows) values.push_back(static_cast<std::uint64_t>(rows_));
      if (parameter.kind == ParameterKind::stride) values.push_back(static_cast<std::uint64_t>(plan_->spec.width));
      if (parameter.kind == ParameterKind::pointer) values.push_back(address(parameter.operand));
    }
    return values;
  }

 private:
  // In place: the outputs take the inputs' memory.
  Operand home(Operand operand) const {
    if (plan_->spec.residual != Residual::inplace) return operand;
    if (operand == Operand::y) return Operand::x;
    return operand == Operand::residual_out ? Operand::residual : operand;
  }

  std::uint64_t address(Operand operand) {
    const Operand owner = home(operand);
    std::uint64_t& known = addresses_[static_cast<std::size_t>(owner)];
    if (known == 0) known = allocate(owner);
    return known;
  }

  std::uint64_t allocate(Operand operand) {
    const std::int64_t row_bytes = operand_elements(plan_->spec, operand) * size_bytes(operand_dtype(plan_->spec, operand));
    const std::int64_t rows = is_row_operand(operand) ? rows_ : 1;
    const std::uint64_t base = device_->allocate(static_cast<std::uint64_t>(rows * row_bytes));
    const std::vector<std::byte>& bytes = data_.bytes(operand);
    for (std::int64_t row = 0; row < rows && !bytes.empty(); ++row) {
      const std::int64_t source = is_row_operand(operand) ? row % data_.row_count() : 0;
      device_->write(base + static_cast<std::uint64_t>(row * row_bytes), bytes.data() + source * row_bytes,
                     static_cast<std::uint64_t>(row_bytes));
    }
    return base;
  }

  emulator::Device* device_;
  const Plan* plan_;
  std::int64_t rows_;
  InputData data_;
  std::array<std::uint64_t, kOperandCount> addresses_{};
};

Json global_json(const emulator::Counters::Global& global) {
  return {{"requested_bytes", global.requested_bytes},
          {"sectors", global.sectors},
          {"moved_bytes", global.sectors * kSectorBytes},
          {"footprint_bytes", global.footprint_bytes}};
}

Json instructions_json(const emulator::Counters& counters, std::int64_t rows) {
  Json json = Json::object();
  for (std::size_t kind = 0; kind < emulator::kKinds; ++kind) {
    const emulator::Counters::Instructions& count = counters.instructions[kind];
    if (count.threads == 0) continue;
    json[emulator::to_text(static_cast<emulator::Kind>(kind))] = {
        {"threads_per_row", static_cast<double>(count.threads) / static_cast<double>(rows)},
        {"warps_per_row", static_cast<double>(count.warps) / static_cast<double>(rows)}};
  }
  return json;
}

Json counters_json(const emulator::Counters& counters, const Plan& plan, std::int64_t rows, const char* device) {
  const std::int64_t least = minimum_traffic(plan.spec).total_bytes(rows);
  const std::uint64_t footprint = counters.loads.footprint_bytes + counters.stores.footprint_bytes;
  return {{"device", device},
          {"rows", rows},
          {"blocks", counters.blocks},
          {"instructions", instructions_json(counters, rows)},
          {"loads", global_json(counters.loads)},
          {"stores", global_json(counters.stores)},
          {"minimum_bytes", least},
          {"traffic_ratio", static_cast<double>(footprint) / static_cast<double>(least)},
          {"shared_accesses", counters.shared_accesses},
          {"bank_conflicts", counters.shared_bank_conflicts},
          {"barriers", counters.barriers}};
}

}  // namespace

emulator::Model smallest_model(const Target& target) {
  for (emulator::Model model : emulator::all_models()) {
    if (target.sm <= emulator::device_model(model).sm) return model;
  }
  return emulator::all_models().back();
}

Result<Json> count_launch(CodegenBackend& backend, const Plan& plan, std::int64_t rows, emulator::Model model) {
  if (plan.target.kind != TargetKind::gpu)
    return user_error(fmt::format("what a launch does is counted for GPUs; the target is {}", to_text(plan.target)),
                      "give --target sm_90, say");
  rows = std::clamp<std::int64_t>(rows, 1, kMostCountedRows);
  HEADNORM_TRY(const Artifact artifact, backend.compile(plan));
  emulator::Device device(model);
  const auto module = device.load(artifact.bytes);
  if (!module.ok())
    return user_error(
        "the emulated device does not take the kernel: " + module.message(),
        fmt::format("leave --device out, or use emulator:{}", emulator::device_model(smallest_model(plan.target)).slug));
  CountedLaunch launch(device, plan, rows);
  emulator::LaunchShape shape;
  shape.grid.x = static_cast<std::uint32_t>(grid_blocks(plan, rows));
  shape.block.x = static_cast<std::uint32_t>(plan.gpu().block_threads);
  shape.dynamic_shared_bytes = static_cast<std::uint64_t>(plan.gpu().dynamic_shared_bytes);
  const auto parameters = emulator::pack_parameters((*module)->facts(artifact.entry), launch.parameters());
  const emulator::LaunchResult result = device.launch(**module, artifact.entry, shape, parameters);
  if (result.fault) return internal_error("the kernel is at fault: " + to_text(*result.fault));
  return counters_json(result.counters, plan, rows, emulator::device_model(model).slug);
}

std::string counters_text(const Json& counters) {
  std::string text =
      fmt::format("\ncounted on the emulated {}, {} in {}\n", counters["device"].get<std::string>(),
                  counted(counters["rows"].get<std::int64_t>(), "row"), counted(counters["blocks"].get<std::int64_t>(), "block"));
  Table instructions({"instructions", ">of threads a row", ">of warps a row"});
  for (const auto& [kind, count] : counters["instructions"].items())
    instructions.add({kind, fmt::format("{:.1f}", count["threads_per_row"].get<double>()),
                      fmt::format("{:.1f}", count["warps_per_row"].get<double>())});
  Table memory({"global memory", ">bytes asked", ">sectors", ">bytes moved", ">once each"});
  for (const char* key : {"loads", "stores"}) {
    const Json& global = counters[key];
    memory.add({key, global["requested_bytes"].dump(), global["sectors"].dump(), global["moved_bytes"].dump(),
                global["footprint_bytes"].dump()});
  }
  return text + instructions.render() + "\n" + memory.render() + "\n" +
         render_facts({{"traffic", fmt::format("{:.3f} of the least, {}", counters["traffic_ratio"].get<double>(),
                                               counted(counters["minimum_bytes"].get<std::int64_t>(), "byte"))},
                       {"shared", fmt::format("{}, {} more by bank conflicts",
                                              counted(counters["shared_accesses"].get<std::int64_t>(), "wavefront"),
                                              counters["bank_conflicts"].dump())},
                       {"barriers", counters["barriers"].dump()}});
}

}  // namespace headnorm::cli
