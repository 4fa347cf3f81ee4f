#include "runtime/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace headnorm {
namespace {

// The bytes of a row operand as `rows` rows of `row_bytes`, `stride_bytes` apart; a weight is one row, an absent operand none.
struct Extent {
  std::uintptr_t begin = 0;
  std::int64_t rows = 0, row_bytes = 0, stride_bytes = 0;
  std::uintptr_t end() const { return begin + static_cast<std::uintptr_t>((rows - 1) * stride_bytes + row_bytes); }
};

// None if the last row's end is beyond what an address can be.
std::optional<Extent> make_extent(const KernelSpec& spec, const LaunchArguments& arguments, Operand operand) {
  const std::int64_t element = size_bytes(operand_dtype(spec, operand));
  Extent extent{.begin = reinterpret_cast<std::uintptr_t>(arguments.address(operand)),
                .rows = is_row_operand(operand) ? arguments.rows : 1,
                .row_bytes = operand_elements(spec, operand) * element};
  std::int64_t before_last = 0, bytes = 0;
  if (extent.rows > 1) {
    if (__builtin_mul_overflow(arguments.stride(operand), element, &extent.stride_bytes)) return std::nullopt;
    if (__builtin_mul_overflow(extent.rows - 1, extent.stride_bytes, &before_last)) return std::nullopt;
  }
  std::uintptr_t end = 0;
  if (__builtin_add_overflow(before_last, extent.row_bytes, &bytes)) return std::nullopt;
  if (__builtin_add_overflow(extent.begin, static_cast<std::uintptr_t>(bytes), &end)) return std::nullopt;
  return extent;
}

// Whether two operands share bytes. Slices of one tensor, which have its stride and columns of their own, do not; for two strides
// that differ, tensors that lie within each other's range are taken to.
bool overlap(const Extent& a, const Extent& b) {
  if (a.end() <= b.begin || b.end() <= a.begin) return false;
  if (a.rows == 1 || b.rows == 1 || a.stride_bytes != b.stride_bytes) return true;
  const auto stride = static_cast<std::uintptr_t>(a.stride_bytes);
  const std::uintptr_t distance =
      b.begin >= a.begin ? (b.begin - a.begin) % stride : (stride - (a.begin - b.begin) % stride) % stride;
  return distance < static_cast<std::uintptr_t>(a.row_bytes) || distance + static_cast<std::uintptr_t>(b.row_bytes) > stride;
}

bool may_alias(Operand output, Operand other) {
  return (output == Operand::y && other == Operand::x) ||
         (output == Operand::residual_out && (other == Operand::residual || other == Operand::x));
}

// The address and layout of an output that takes the place of an input.
bool is_in_place(const KernelSpec& spec, Operand output, const Extent& a, Operand other, const Extent& b) {
  return may_alias(output, other) && operand_dtype(spec, output) == operand_dtype(spec, other) && a.begin == b.begin &&
         a.stride_bytes == b.stride_bytes;
}

Result<void> check_overlap(const KernelSpec& spec, const std::array<Extent, kOperandCount>& extents) {
  for (Operand output : {Operand::y, Operand::residual_out}) {
    const Extent& written = extents[static_cast<std::size_t>(output)];
    if (written.rows == 0) continue;
    for (Operand other : kOperands) {
      const Extent& extent = extents[static_cast<std::size_t>(other)];
      if (other == output || extent.rows == 0) continue;
      if (overlap(written, extent) && !is_in_place(spec, output, written, other, extent))
        return user_error(fmt::format("{} overlaps {}", to_text(output), to_text(other)),
                          "y may be x, and residual_out may be residual or x, at one address with one stride and dtype; all else "
                          "needs memory of its own");
    }
  }
  return {};
}

}  // namespace

int alignment_bytes(const Plan& plan, Operand operand) {
  if (!has_operand(plan.spec, operand)) return 1;
  if (plan.target.kind == TargetKind::gpu) return operand_access_bytes(plan, operand);
  if (!is_output(operand)) return 1;
  // Streaming stores of a line: a narrow output needs less than a wide one beside it.
  const int line_bytes = plan.host().line_elements * size_bytes(operand_dtype(plan.spec, operand));
  return std::min(plan.host().y_alignment, plan.target.streaming_alignment(line_bytes));
}

Result<double> Device::measure_copy_us(void* /*to*/, const void* /*from*/, std::size_t /*bytes*/) {
  return environment_error(fmt::format("{} measures no copies", info().id), "compare with a copy on a CUDA device");
}

Result<void> check_arguments(const KernelSpec& spec, const LaunchArguments& arguments) {
  if (arguments.rows < 0)
    return user_error(fmt::format("rows is {}: must be 0 or more", arguments.rows), "give the number of rows");
  if (arguments.rows == 0) return {};
  std::array<Extent, kOperandCount> extents{};
  for (Operand operand : kOperands) {
    if (!has_operand(spec, operand)) continue;
    if (arguments.address(operand) == nullptr)
      return user_error(fmt::format("{} has a null address, and the kernel needs it", to_text(operand)),
                        fmt::format("give the tensor {} of {} elements a row", to_text(operand), operand_elements(spec, operand)));
    if (is_row_operand(operand) && arguments.rows > 1 && arguments.stride(operand) < spec.width)
      return user_error(fmt::format("the row stride of {} is {} elements: must be at least the width, {}", to_text(operand),
                                    arguments.stride(operand), spec.width),
                        "give the distance between rows in elements");
    const std::optional<Extent> extent = make_extent(spec, arguments, operand);
    if (!extent)
      return user_error(fmt::format("{} rows of {} with a stride of {} elements end beyond the address space", arguments.rows,
                                    to_text(operand), arguments.stride(operand)),
                        "check rows and stride");
    extents[static_cast<std::size_t>(operand)] = *extent;
  }
  return check_overlap(spec, extents);
}

AlignmentRule::AlignmentRule(const Plan& plan) {
  for (Operand operand : kOperands) {
    const int bytes = alignment_bytes(plan, operand);
    const int elements = bytes / size_bytes(operand_dtype(plan.spec, operand));
    address_masks_[static_cast<std::size_t>(operand)] = static_cast<std::uintptr_t>(bytes) - 1;
    if (is_row_operand(operand)) stride_masks_[static_cast<std::size_t>(operand)] = std::max(elements, 1) - 1;
  }
}

bool AlignmentRule::holds(const LaunchArguments& arguments) const {
  std::uintptr_t off = 0;
  for (std::size_t i = 0; i < kOperandCount; ++i) {
    off |= reinterpret_cast<std::uintptr_t>(arguments.addresses[i]) & address_masks_[i];
    if (arguments.rows > 1) off |= static_cast<std::uintptr_t>(arguments.strides[i] & stride_masks_[i]);
  }
  return off == 0;
}

bool satisfies_alignment(const Plan& plan, const LaunchArguments& arguments) { return AlignmentRule(plan).holds(arguments); }

}  // namespace headnorm
