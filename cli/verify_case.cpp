#include "cli/verify_case.h"

#include <fmt/format.h>

#include <numeric>

#include "core/error_bound.h"

namespace headnorm::cli {
namespace {

constexpr std::int64_t kGapBytes = 64;  // keeps every alignment that a plan can ask for

Failure failure_of(const Plan& plan, std::int64_t rows, std::string what, std::string message) {
  Failure failure;
  failure.schedule = to_text(plan.schedule);
  failure.rows = rows;
  failure.what = std::move(what);
  failure.message = std::move(message);
  return failure;
}

WorkloadShape shape_of(std::int64_t rows) {
  WorkloadShape shape;
  shape.rows = rows;
  shape.gap_bytes = kGapBytes;
  shape.checked_rows.resize(static_cast<std::size_t>(rows));
  std::iota(shape.checked_rows.begin(), shape.checked_rows.end(), 0);
  return shape;
}

}  // namespace

SpecVerifier::SpecVerifier(Device& device, CodegenBackend& backend, const KernelSpec& spec, Reference reference, std::uint64_t seed)
    : device_(&device), backend_(&backend), spec_(spec), reference_(std::move(reference)), data_(spec, seed) {}

const ReferenceRow& SpecVerifier::reference_row(std::int64_t data_row) {
  const auto known = reference_rows_.find(data_row);
  if (known != reference_rows_.end()) return known->second;
  return reference_rows_.emplace(data_row, reference_(spec_, data_.row(data_row))).first->second;
}

std::optional<Failure> SpecVerifier::compare_row(const Plan& plan, std::int64_t row, Operand output,
                                                 const std::vector<float>& stored) {
  const std::int64_t data_row = row % data_.row_count();
  const ReferenceRow& reference = reference_row(data_row);
  const RowErrors errors = bound_errors(spec_, arithmetic_of(plan), data_.row(data_row));
  const std::vector<double>& expected = output == Operand::y ? reference.y : reference.residual_out;
  const std::vector<double>& bound = output == Operand::y ? errors.y : errors.residual_out;
  const Dtype dtype = operand_dtype(spec_, output);
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const bool right = output == Operand::y ? is_right_y(stored[i], expected[i], errors, i, dtype)
                                            : is_within_bound(stored[i], expected[i], bound[i], dtype);
    if (right) continue;
    Failure failure = failure_of(plan, 0, to_text(output), "outside the error bound");
    failure.row = row;
    failure.channel = static_cast<std::int64_t>(i);
    failure.head = failure.channel / spec_.head_size;
    failure.value = stored[i];
    failure.expected = expected[i];
    failure.bound = bound[i];
    return failure;
  }
  return std::nullopt;
}

Result<std::optional<Failure>> SpecVerifier::run(const Plan& plan, std::int64_t rows) {
  if (const std::string schedule = to_text(plan.schedule); loaded_ == nullptr || schedule != loaded_schedule_) {
    loaded_.reset();
    const Result<Artifact> artifact = backend_->compile(plan);
    if (!artifact.ok()) return std::optional(failure_of(plan, rows, "compile", artifact.error().message));
    Result<std::shared_ptr<const LoadedKernel>> kernel = device_->load(*artifact, plan);
    if (!kernel.ok()) return std::optional(failure_of(plan, rows, "load", kernel.error().message));
    loaded_ = std::move(*kernel);
    loaded_schedule_ = schedule;
  }
  HEADNORM_TRY(Workload workload, Workload::make(*device_, spec_, shape_of(rows), data_));
  const LaunchArguments arguments = workload.arguments(0);
  if (!satisfies_alignment(plan, arguments))
    return internal_error(fmt::format("tensors of {} byte gaps do not suit schedule {}", kGapBytes, to_text(plan.schedule)));
  Result<void> launched = device_->launch(*loaded_, arguments);
  if (launched.ok()) launched = device_->synchronize();
  if (!launched.ok()) return std::optional(failure_of(plan, rows, "launch", launched.error().message));
  HEADNORM_TRY(const std::optional<std::string> damage, workload.find_damage(0));
  if (damage) return std::optional(failure_of(plan, rows, "damage", *damage));
  for (Operand output : {Operand::y, Operand::residual_out}) {
    if (!has_operand(spec_, output)) continue;
    for (std::int64_t row = 0; row < rows; ++row) {
      HEADNORM_TRY(const std::vector<float> stored, workload.read_row(0, output, row));
      std::optional<Failure> failure = compare_row(plan, row, output, stored);
      if (!failure) continue;
      failure->rows = rows;
      return failure;
    }
  }
  return std::optional<Failure>();
}

}  // namespace headnorm::cli
