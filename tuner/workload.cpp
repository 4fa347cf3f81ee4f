#include "tuner/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace headnorm {
namespace {

constexpr std::byte kCanary{0xC5};
constexpr std::byte kPoison{0xFF};  // every f32, f16 and bf16 of these bytes is a NaN
constexpr std::int64_t kPitchAlignment = 256;

std::int64_t round_up(std::int64_t value, std::int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace

Workload::Workload(Device& device, const KernelSpec& spec, const WorkloadShape& shape, const InputData& data)
    : device_(&device), spec_(spec), shape_(shape), data_(&data) {
  for (Operand operand : kOperands) {
    if (!has_operand(spec, operand) || home(operand) != operand) continue;
    Region& r = region(operand);
    r.row_bytes = operand_elements(spec, operand) * size_bytes(operand_dtype(spec, operand));
    r.rows = is_row_operand(operand) ? shape.rows : 1;
    r.stride_bytes = r.row_bytes + (is_row_operand(operand) ? shape.gap_bytes : 0);
    r.pitch = round_up(r.data_bytes(), kPitchAlignment) + 2 * shape.guard_bytes;
  }
}

std::int64_t Workload::set_bytes(const KernelSpec& spec, const WorkloadShape& shape) {
  std::int64_t bytes = 0;
  for (Operand operand : kOperands) {
    const bool shared = spec.residual == Residual::inplace && is_output(operand);
    if (!has_operand(spec, operand) || !is_row_operand(operand) || shared) continue;
    const std::int64_t stride = operand_elements(spec, operand) * size_bytes(operand_dtype(spec, operand)) + shape.gap_bytes;
    bytes += round_up(shape.rows * stride, kPitchAlignment) + 2 * shape.guard_bytes;
  }
  return bytes;
}

Result<Workload> Workload::make(Device& device, const KernelSpec& spec, const WorkloadShape& shape, const InputData& data,
                                const std::function<bool()>& stopped) {
  Workload workload(device, spec, shape, data);
  for (Operand operand : kOperands) {
    if (stopped && stopped()) break;
    if (has_operand(spec, operand) && workload.home(operand) == operand) HEADNORM_CHECK(workload.allocate(operand, stopped));
  }
  return workload;
}

Operand Workload::home(Operand operand) const {
  if (spec_.residual != Residual::inplace) return operand;
  return operand == Operand::y ? Operand::x : operand == Operand::residual_out ? Operand::residual : operand;
}

std::byte* Workload::address(Operand operand, int set) const {
  const Region& r = region(operand);
  const std::int64_t place = is_row_operand(operand) ? set * r.pitch : 0;
  return static_cast<std::byte*>(r.buffer.address()) + place + shape_.guard_bytes;
}

LaunchArguments Workload::arguments(int set) const {
  LaunchArguments arguments;
  arguments.rows = shape_.rows;
  for (Operand operand : kOperands) {
    if (!has_operand(spec_, operand)) continue;
    arguments.address(operand) = address(operand, set);
    if (is_row_operand(operand))
      arguments.stride(operand) = region(operand).stride_bytes / size_bytes(operand_dtype(spec_, operand));
  }
  return arguments;
}

Result<void> Workload::allocate(Operand operand, const std::function<bool()>& stopped) {
  Region& r = region(operand);
  const int sets = is_row_operand(operand) ? shape_.sets : 1;
  HEADNORM_TRY(r.buffer, device_->allocate(static_cast<std::size_t>(sets * r.pitch)));
  for (int set = 0; set < sets; ++set) {
    if (stopped && stopped()) return {};
    HEADNORM_CHECK(write_canaries(operand, set));
    if (!is_output(operand)) {
      HEADNORM_CHECK(fill_input(operand, set));
      continue;
    }
    // All rows once, so that the pages are there before anything is timed.
    const std::vector<std::byte> row(static_cast<std::size_t>(r.row_bytes), kPoison);
    for (std::int64_t i = 0; i < r.rows; ++i)
      HEADNORM_CHECK(device_->copy_in(address(operand, set) + i * r.stride_bytes, row.data(), row.size()));
  }
  return {};
}

Result<void> Workload::fill_input(Operand operand, int set) {
  const Region& r = region(operand);
  const std::vector<std::byte>& source = data_->bytes(operand);
  const std::int64_t together = shape_.gap_bytes == 0 && is_row_operand(operand) ? data_->row_count() : 1;
  for (std::int64_t row = 0; row < r.rows; row += together) {
    const std::int64_t count = std::min(together, r.rows - row);
    const std::byte* from = source.data() + (is_row_operand(operand) ? row % data_->row_count() * r.row_bytes : 0);
    HEADNORM_CHECK(
        device_->copy_in(address(operand, set) + row * r.stride_bytes, from, static_cast<std::size_t>(count * r.row_bytes)));
  }
  return {};
}

Result<void> Workload::poison(Operand operand, int set) {
  const Region& r = region(operand);
  const std::vector<std::byte> row(static_cast<std::size_t>(r.row_bytes), kPoison);
  for (std::int64_t i : shape_.checked_rows)
    HEADNORM_CHECK(device_->copy_in(address(operand, set) + i * r.stride_bytes, row.data(), row.size()));
  return {};
}

Result<void> Workload::restore(int set) {
  for (Operand operand : {Operand::y, Operand::residual_out}) {
    if (!has_operand(spec_, operand)) continue;
    HEADNORM_CHECK(home(operand) == operand ? poison(operand, set) : fill_input(home(operand), set));
  }
  return {};
}

Result<void> Workload::repair(int set) {
  for (Operand operand : kOperands) {
    if (!has_operand(spec_, operand) || home(operand) != operand) continue;
    HEADNORM_CHECK(write_canaries(operand, set));
    if (!is_output(operand)) HEADNORM_CHECK(fill_input(operand, set));
  }
  return restore(set);
}

Result<void> Workload::write_canaries(Operand operand, int set) {
  const Region& r = region(operand);
  std::byte* data = address(operand, set);
  const std::int64_t after = r.pitch - shape_.guard_bytes - r.data_bytes();
  const std::vector<std::byte> canary(static_cast<std::size_t>(std::max(after, std::max(shape_.guard_bytes, shape_.gap_bytes))),
                                      kCanary);
  HEADNORM_CHECK(device_->copy_in(data - shape_.guard_bytes, canary.data(), static_cast<std::size_t>(shape_.guard_bytes)));
  HEADNORM_CHECK(device_->copy_in(data + r.data_bytes(), canary.data(), static_cast<std::size_t>(after)));
  for (std::int64_t row = 0; r.stride_bytes > r.row_bytes && row + 1 < r.rows; ++row) {
    HEADNORM_CHECK(device_->copy_in(data + row * r.stride_bytes + r.row_bytes, canary.data(),
                                    static_cast<std::size_t>(r.stride_bytes - r.row_bytes)));
  }
  return {};
}

Result<std::optional<std::string>> Workload::find_damaged_canary(Operand operand, int set) {
  const Region& r = region(operand);
  const std::byte* data = address(operand, set);
  // -1 if whole, else the offset of the first damaged byte.
  const auto damaged = [&](const std::byte* from, std::int64_t bytes) -> Result<std::int64_t> {
    std::vector<std::byte> found(static_cast<std::size_t>(bytes));
    HEADNORM_CHECK(device_->copy_out(found.data(), from, found.size()));
    const auto bad = std::find_if(found.begin(), found.end(), [](std::byte b) { return b != kCanary; });
    return bad == found.end() ? std::int64_t{-1} : static_cast<std::int64_t>(bad - found.begin());
  };
  HEADNORM_TRY(const std::int64_t before, damaged(data - shape_.guard_bytes, shape_.guard_bytes));
  if (before >= 0) return std::optional(fmt::format("wrote {} bytes before {}", shape_.guard_bytes - before, to_text(operand)));
  HEADNORM_TRY(const std::int64_t after, damaged(data + r.data_bytes(), r.pitch - shape_.guard_bytes - r.data_bytes()));
  if (after >= 0) return std::optional(fmt::format("wrote {} bytes past the end of {}", after, to_text(operand)));
  for (std::int64_t row = 0; r.stride_bytes > r.row_bytes && row + 1 < r.rows; ++row) {
    HEADNORM_TRY(const std::int64_t gap, damaged(data + row * r.stride_bytes + r.row_bytes, r.stride_bytes - r.row_bytes));
    if (gap >= 0) return std::optional(fmt::format("wrote {} bytes past row {} of {}", gap, row, to_text(operand)));
  }
  return std::optional<std::string>();
}

Result<std::optional<std::string>> Workload::find_changed_input(Operand operand, int set) {
  const Region& r = region(operand);
  std::vector<std::byte> found(static_cast<std::size_t>(r.row_bytes));
  for (std::int64_t row = 0; row < r.rows; ++row) {
    HEADNORM_CHECK(device_->copy_out(found.data(), address(operand, set) + row * r.stride_bytes, found.size()));
    const std::byte* expected =
        data_->bytes(operand).data() + (is_row_operand(operand) ? row % data_->row_count() * r.row_bytes : 0);
    if (std::memcmp(found.data(), expected, found.size()) != 0)
      return std::optional(fmt::format("changed its input {} in row {}", to_text(operand), row));
  }
  return std::optional<std::string>();
}

Result<std::optional<std::string>> Workload::find_damage(int set) {
  for (Operand operand : kOperands) {
    if (!has_operand(spec_, operand) || home(operand) != operand) continue;
    HEADNORM_TRY(std::optional<std::string> damage, find_damaged_canary(operand, set));
    if (damage) return damage;
    const bool overwritten = spec_.residual == Residual::inplace && is_row_operand(operand);
    if (is_output(operand) || overwritten || !checks_all_rows()) continue;
    HEADNORM_TRY(damage, find_changed_input(operand, set));
    if (damage) return damage;
  }
  return std::optional<std::string>();
}

Result<std::vector<float>> Workload::read_row(int set, Operand output, std::int64_t row) {
  const Region& r = region(output);
  std::vector<std::byte> bytes(static_cast<std::size_t>(r.row_bytes));
  HEADNORM_CHECK(device_->copy_out(bytes.data(), address(output, set) + row * r.stride_bytes, bytes.size()));
  const Dtype dtype = operand_dtype(spec_, output);
  std::vector<float> values(static_cast<std::size_t>(spec_.width));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = load_element(bytes.data() + i * static_cast<std::size_t>(size_bytes(dtype)), dtype);
  return values;
}

}  // namespace headnorm
