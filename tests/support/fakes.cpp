#include "tests/support/fakes.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "core/digest.h"

namespace headnorm::test {
namespace {

constexpr std::align_val_t kAlignment{256};

class FakeKernel final : public LoadedKernel {
 public:
  explicit FakeKernel(Plan plan) : LoadedKernel(std::move(plan)) {}
};

std::byte* element(const KernelSpec& spec, const LaunchArguments& arguments, Operand operand, std::int64_t row, std::int64_t i) {
  const std::int64_t place = (is_row_operand(operand) ? row * arguments.stride(operand) : 0) + i;
  return static_cast<std::byte*>(arguments.address(operand)) + place * size_bytes(operand_dtype(spec, operand));
}

RowValues load_row(const KernelSpec& spec, const LaunchArguments& arguments, std::int64_t row) {
  RowValues values;
  for (Operand operand : kOperands) {
    if (!has_operand(spec, operand) || is_output(operand)) continue;
    for (std::int64_t i = 0; i < operand_elements(spec, operand); ++i) {
      values[static_cast<std::size_t>(operand)].push_back(
          load_element(element(spec, arguments, operand, row, i), operand_dtype(spec, operand)));
    }
  }
  return values;
}

void store_row(const KernelSpec& spec, const LaunchArguments& arguments, Operand output, std::int64_t row,
               const std::vector<double>& values, double factor) {
  for (std::int64_t i = 0; i < spec.width; ++i) {
    store_element(element(spec, arguments, output, row, i), operand_dtype(spec, output),
                  static_cast<float>(factor * values[static_cast<std::size_t>(i)]));
  }
}

void do_damage(Fault fault, const KernelSpec& spec, const LaunchArguments& arguments) {
  const std::int64_t last = arguments.rows - 1;
  if (fault == Fault::wrong_tail) {
    std::byte* tail = element(spec, arguments, Operand::y, last, spec.width - 1);
    store_element(tail, spec.y_dtype, 1.25f * load_element(tail, spec.y_dtype) + 0.01f);
  }
  if (fault == Fault::overruns) std::memset(element(spec, arguments, Operand::y, last, spec.width), 0, 8);
  if (fault == Fault::changes_input) std::memset(element(spec, arguments, Operand::gamma, 0, 0), 0, 2);
  if (fault == Fault::runs_into_gap && arguments.stride(Operand::y) > spec.width) {
    for (std::int64_t row = 0; row < last; ++row) std::memset(element(spec, arguments, Operand::y, row, spec.width), 0, 2);
  }
}

}  // namespace

Result<Artifact> FakeBackend::compile(const Plan& plan) {
  compiled.push_back(to_text(plan.schedule));
  if (clock != nullptr) clock->now_s += 1e-3;
  if (fault(plan) == Fault::compile) return internal_error("the compiler gave up");
  Artifact artifact;
  artifact.entry = "fake";
  artifact.bytes = to_text(plan.schedule);
  artifact.key = artifact_key(plan, identity());
  artifact.backend = identity();
  return artifact;
}

FakeDevice::FakeDevice() {
  info_.kind = "host";
  info_.id = "host";
  info_.name = "fake processor";
  info_.target = make_host_target(HostIsa::x86_64_v4_bf16);
  info_.units = 1;
  info_.memory_bytes = std::int64_t{1} << 30;
  info_.cache_bytes = 64 << 10;
}

Result<Buffer> FakeDevice::allocate(std::size_t bytes) {
  return Buffer(::operator new(bytes, kAlignment), bytes,
                [](void* address, std::size_t) { ::operator delete(address, kAlignment); });
}

Result<void> FakeDevice::copy_in(void* device_address, const void* source, std::size_t bytes) {
  std::memcpy(device_address, source, bytes);
  copied_in_bytes += static_cast<std::int64_t>(bytes);
  return {};
}

Result<void> FakeDevice::copy_out(void* destination, const void* device_address, std::size_t bytes) {
  std::memcpy(destination, device_address, bytes);
  return {};
}

Result<std::shared_ptr<const LoadedKernel>> FakeDevice::load(const Artifact&, const Plan& plan) {
  if (fault(plan, launches[to_text(plan.schedule)]) == Fault::load)
    return environment_error("the device refused the kernel", "none");
  return std::shared_ptr<const LoadedKernel>(std::make_shared<FakeKernel>(plan));
}

const ReferenceRow& FakeDevice::reference(const KernelSpec& spec, const LaunchArguments& arguments, std::int64_t row) {
  std::string key = to_text(spec);
  for (Operand operand : kOperands) {
    if (!has_operand(spec, operand) || is_output(operand)) continue;
    const auto bytes = static_cast<std::size_t>(operand_elements(spec, operand) * size_bytes(operand_dtype(spec, operand)));
    key.append(reinterpret_cast<const char*>(element(spec, arguments, operand, row, 0)), bytes);
  }
  const auto found = references_.find(key);
  if (found != references_.end()) return found->second;
  return references_.emplace(key, reference_row(spec, load_row(spec, arguments, row))).first->second;
}

void FakeDevice::run_rows(const KernelSpec& spec, const LaunchArguments& arguments, double factor) {
  for (std::int64_t row = 0; row < arguments.rows; ++row) {
    const ReferenceRow& exact = reference(spec, arguments, row);
    store_row(spec, arguments, Operand::y, row, exact.y, factor);
    if (spec.has_residual()) store_row(spec, arguments, Operand::residual_out, row, exact.residual_out, factor);
  }
}

Result<void> FakeDevice::launch(const LoadedKernel& kernel, const LaunchArguments& arguments) {
  const Plan& plan = kernel.plan();
  const Fault fault_now = fault(plan, launches[to_text(plan.schedule)]++);
  if (clock != nullptr) clock->now_s += time_us(plan) * 1e-6;
  if (fault_now == Fault::launch) return environment_error("the launch failed", "none");
  if (fault_now == Fault::writes_nothing) return {};
  run_rows(plan.spec, arguments, fault_now == Fault::writes_zeros ? 0.0 : 1.0);
  do_damage(fault_now, plan.spec, arguments);
  return {};
}

Result<double> FakeDevice::measure_us(const LoadedKernel& kernel, const LaunchArguments& arguments) {
  measured.emplace_back(to_text(kernel.plan().schedule), arguments.address(Operand::x));
  HEADNORM_CHECK(launch(kernel, arguments));
  return time_us(kernel.plan());
}

Result<double> FakeDevice::measure_copy_us(void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
  copied.emplace_back(from, bytes);
  return static_cast<double>(bytes) * 1e-3;
}

FakeDatabase::FakeDatabase() {
  std::string name = (std::filesystem::temp_directory_path() / "headnorm_test_XXXXXX").string();
  directory_ = mkdtemp(name.data());
}

FakeDatabase::~FakeDatabase() {
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

Result<std::optional<Record>> FakeDatabase::find(const std::string& id) {
  const auto found = records.find(id);
  return found == records.end() ? std::optional<Record>() : std::optional(found->second);
}

Result<std::vector<Record>> FakeDatabase::list(std::vector<Damage>*) {
  std::vector<Record> all;
  for (const auto& [id, record] : records) all.push_back(record);
  return all;
}

Result<Lookup> FakeDatabase::look_up(const KernelSpec&, std::int64_t, const DeviceInfo&) {
  return internal_error("the fake database does not look up");
}

Result<void> FakeDatabase::publish(const Record& record) {
  records[record.id] = record;
  return {};
}

Result<StoredKernel> FakeDatabase::store_kernel(const Artifact& artifact, const std::string&) {
  StoredKernel kernel;
  kernel.sha256 = sha256_hex(artifact.bytes);
  kernel.entry = artifact.entry;
  kernel.key = artifact.key;
  kernel.backend = artifact.backend;
  return kernel;
}

Result<std::optional<Artifact>> FakeDatabase::load_kernel(const StoredKernel&) { return std::optional<Artifact>(); }
Result<std::optional<Artifact>> FakeDatabase::find_kernel(const std::string&) { return std::optional<Artifact>(); }

}  // namespace headnorm::test
