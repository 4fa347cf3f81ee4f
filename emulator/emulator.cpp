#include "emulator/emulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "emulator/machine/decode.h"
#include "emulator/machine/run.h"
#include "emulator/ptx/parser.h"
#include "emulator/target_check.h"

namespace headnorm::emulator {

struct Device::State {
  State(Model which, int ordinal) : model(device_model(which)), memory(ordinal, model.memory_bytes) {}
  // What the next launch may run beside.
  void note_launch(Tag first_tag, const Unsettled& before, bool leaves_unsettled) {
    unsettled = leaves_unsettled && before.launch_number != 0 ? before : Unsettled{first_tag, memory.launch_number()};
  }
  const DeviceModel& model;
  GlobalMemory memory;
  Unsettled unsettled;
};

struct Module::State {
  struct Variable {
    std::uint64_t address = 0, bytes = 0;
  };
  std::shared_ptr<Device::State> device;
  int version = 0;
  std::map<std::string, Kernel, std::less<>> kernels;
  std::map<std::string, Variable, std::less<>> variables;
  std::vector<std::string> names;
};

Device::Device(Model model, int ordinal) : state_(std::make_shared<State>(model, ordinal)) {}
Device::~Device() = default;

const DeviceModel& Device::model() const { return state_->model; }
std::uint64_t Device::allocate(std::uint64_t bytes) { return state_->memory.allocate(bytes); }
bool Device::release(std::uint64_t address) { return state_->memory.release(address); }
std::uint64_t Device::used_bytes() const { return state_->memory.used_bytes(); }
void Device::settle() { state_->unsettled = {}; }

namespace {

// The allocation that holds all of a stretch, or null.
Allocation* find(GlobalMemory& memory, std::uint64_t address, std::uint64_t bytes) {
  Allocation* allocation = memory.find(address);
  return allocation != nullptr && allocation->contains(address, bytes) ? allocation : nullptr;
}

}  // namespace

bool Device::write(std::uint64_t to, const void* from, std::uint64_t bytes) {
  settle();
  if (bytes == 0) return true;
  Allocation* target = find(state_->memory, to, bytes);
  if (target == nullptr) return false;
  std::memcpy(target->data + (to - target->base), from, bytes);
  std::fill_n(target->tags + (to - target->base), bytes, kWritten);
  return true;
}

bool Device::read(void* to, std::uint64_t from, std::uint64_t bytes) const {
  if (bytes == 0) return true;
  const Allocation* source = find(state_->memory, from, bytes);
  if (source == nullptr) return false;
  std::memcpy(to, source->data + (from - source->base), bytes);
  return true;
}

bool Device::copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
  settle();
  if (bytes == 0) return true;
  Allocation* target = find(state_->memory, to, bytes);
  Allocation* source = find(state_->memory, from, bytes);
  if (target == nullptr || source == nullptr) return false;
  std::memmove(target->data + (to - target->base), source->data + (from - source->base), bytes);
  std::memmove(target->tags + (to - target->base), source->tags + (from - source->base), bytes * sizeof(Tag));
  return true;
}

bool Device::fill(std::uint64_t to, std::uint64_t bytes, std::uint8_t value) {
  settle();
  if (bytes == 0) return true;
  Allocation* target = find(state_->memory, to, bytes);
  if (target == nullptr) return false;
  std::memset(target->data + (to - target->base), value, bytes);
  std::fill_n(target->tags + (to - target->base), bytes, kWritten);
  return true;
}

std::pair<std::uint64_t, std::uint64_t> Device::find_allocation(std::uint64_t address) const {
  const Allocation* allocation = state_->memory.find(address);
  return allocation == nullptr ? std::pair<std::uint64_t, std::uint64_t>{0, 0} : std::pair{allocation->base, allocation->size};
}

Outcome<std::shared_ptr<Module>> Device::load(std::string_view ptx) {
  Outcome<ptx::Module> parsed = ptx::parse_module(ptx);
  if (!parsed.ok()) return Failure{parsed.message()};
  if (std::string refused = check_target(*parsed, state_->model); !refused.empty()) return Failure{std::move(refused)};

  auto state = std::make_unique<Module::State>();
  state->device = state_;
  state->version = parsed->version;
  std::shared_ptr<Module> module(new Module(std::move(state)));
  Symbols symbols;
  for (const ptx::Variable& variable : parsed->variables) {
    if (variable.space == ptx::Space::shared || variable.bytes == 0) continue;
    const std::uint64_t address = allocate(variable.bytes);
    if (address == 0) return Failure{fmt::format("line {}: no memory for variable {}", variable.line, variable.name)};
    fill(address, variable.bytes, 0);  // what has no initial value is zero
    if (!variable.initial.empty()) write(address, variable.initial.data(), variable.bytes);
    state_->memory.find(address)->is_constant = variable.space == ptx::Space::constant;
    module->state_->variables[variable.name] = {address, variable.bytes};
    symbols[variable.name] = address;
  }
  for (const ptx::Kernel& kernel : parsed->kernels) {
    Outcome<Kernel> decoded = decode_kernel(*parsed, kernel, symbols);
    if (!decoded.ok()) return Failure{decoded.message()};
    module->state_->names.push_back(kernel.name);
    module->state_->kernels.emplace(kernel.name, *std::move(decoded));
  }
  return module;
}

LaunchResult Device::launch(const Module& module, std::string_view name, const LaunchShape& shape,
                            const std::vector<std::uint8_t>& parameters, const LaunchOptions& options) {
  LaunchResult result;
  auto refuse = [&](std::string what) {
    result.fault = Fault{Rule::launch_limit, std::string(name), "", 0, {0, 0, 0}, {0, 0, 0}, std::nullopt, std::move(what)};
    return result;
  };
  const auto found = module.state_->kernels.find(name);
  if (found == module.state_->kernels.end()) return refuse("the module has no kernel of this name");
  const Kernel& kernel = found->second;
  LaunchShape whole = shape;
  if (whole.cluster.count() == 0)
    whole.cluster =
        kernel.source.cluster[0] == 0 ? Dim3{} : Dim3{kernel.source.cluster[0], kernel.source.cluster[1], kernel.source.cluster[2]};
  if (std::string refused = check_launch(kernel, state_->model, module.state_->version, whole, parameters.size()); !refused.empty())
    return refuse(std::move(refused));
  if (module.state_->device != state_) return refuse("the module was loaded on another device");

  Launch launch{kernel,
                state_->model,
                state_->memory,
                options,
                whole,
                parameters,
                state_->memory.begin_launch(whole.grid.count()),
                shape.starts_early ? state_->unsettled : Unsettled{},
                false,
                {},
                {},
                std::mt19937_64(options.seed)};
  if (launch.before.first_tag >= launch.first_tag) launch.before = {};  // tags began anew
  run_launch(launch);
  state_->note_launch(launch.first_tag, launch.before, launch.leaves_unsettled);
  return {std::move(launch.fault), launch.counters};
}

Module::Module(std::unique_ptr<State> state) : state_(std::move(state)) {}

Module::~Module() {
  for (const auto& [name, variable] : state_->variables) state_->device->memory.release(variable.address);
}

std::vector<std::string> Module::kernel_names() const { return state_->names; }
bool Module::has_kernel(std::string_view name) const { return state_->kernels.find(name) != state_->kernels.end(); }

KernelFacts Module::facts(std::string_view name) const {
  const Kernel& kernel = state_->kernels.find(name)->second;
  KernelFacts facts;
  facts.static_shared_bytes = kernel.shared_bytes;
  facts.local_bytes = kernel.local_bytes;
  facts.parameter_bytes = kernel.parameter_bytes;
  for (const Parameter& parameter : kernel.parameters) facts.parameters.push_back({parameter.offset, parameter.bytes});
  facts.max_threads = max_threads(kernel, state_->device->model);
  // As an assembler does, no more than leave room for the kernel's largest block.
  facts.registers = std::min(guess_registers(kernel), state_->device->model.registers_per_block / facts.max_threads / 8 * 8);
  facts.required_cluster = {kernel.source.cluster[0], kernel.source.cluster[1], kernel.source.cluster[2]};
  facts.ptx_version = state_->version;
  return facts;
}

std::pair<std::uint64_t, std::uint64_t> Module::find_variable(std::string_view name) const {
  const auto found = state_->variables.find(name);
  if (found == state_->variables.end()) return {0, 0};
  return {found->second.address, found->second.bytes};
}

std::vector<std::uint8_t> pack_parameters(const KernelFacts& facts, const std::vector<std::uint64_t>& values) {
  std::vector<std::uint8_t> bytes(facts.parameter_bytes);
  for (std::size_t i = 0; i < std::min(values.size(), facts.parameters.size()); ++i)
    std::memcpy(bytes.data() + facts.parameters[i].offset, &values[i],
                std::min<std::uint64_t>(sizeof values[i], facts.parameters[i].bytes));
  return bytes;
}

}  // namespace headnorm::emulator
