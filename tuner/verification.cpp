#include "tuner/verification.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace headnorm {

Verifier::Verifier(const KernelSpec& spec, const InputData& data, Reference reference)
    : spec_(spec), data_(&data), reference_(std::move(reference)) {}

const std::vector<Verifier::OutputRanges>& Verifier::ranges_for(const Plan& plan) {
  const Arithmetic arithmetic = arithmetic_of(plan);
  std::vector<OutputRanges>& rows = ranges_[{arithmetic.head_additions, arithmetic.seed_additions, arithmetic.rsqrt_error}];
  if (!rows.empty()) return rows;
  const auto ranges_of = [](const std::vector<double>& exact, const std::vector<double>& error, const RowErrors* casts,
                            Dtype dtype) {
    Ranges ranges;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      StoredRange range = stored_range(exact[i], error[i], dtype);
      if (std::isinf(error[i])) range = {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
      ranges.low.push_back(static_cast<float>(range.low));
      ranges.high.push_back(static_cast<float>(range.high));
      if (casts == nullptr || casts->y_step.empty()) continue;
      const StoredRange other = stored_range(exact[i] + casts->step_from(exact[i], i), error[i], dtype);
      ranges.other_low.push_back(static_cast<float>(other.low));
      ranges.other_high.push_back(static_cast<float>(other.high));
    }
    return ranges;
  };
  for (std::int64_t row = 0; row < data_->row_count(); ++row) {
    const RowErrors errors = bound_errors(spec_, arithmetic, data_->row(row));
    const ReferenceRow& exact = reference_row(row);
    rows.push_back({ranges_of(exact.y, errors.y, &errors, spec_.y_dtype),
                    ranges_of(exact.residual_out, errors.residual_out, nullptr, spec_.residual_dtype)});
  }
  return rows;
}

const ReferenceRow& Verifier::reference_row(std::int64_t row) {
  if (rows_.empty()) {
    for (std::int64_t i = 0; i < data_->row_count(); ++i) rows_.push_back(reference_(spec_, data_->row(i)));
  }
  return rows_[static_cast<std::size_t>(row)];
}

std::optional<std::string> Verifier::find_mismatch(const std::vector<float>& stored, const Ranges& ranges) const {
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const float low = ranges.low[i], high = ranges.high[i];
    if ((low <= stored[i] && stored[i] <= high) || low > high) continue;
    if (!ranges.other_low.empty() && ranges.other_low[i] <= stored[i] && stored[i] <= ranges.other_high[i]) continue;
    return fmt::format("head {}, channel {}: {}, right are {} to {}", static_cast<std::int64_t>(i) / spec_.head_size, i, stored[i],
                       low, high);
  }
  return std::nullopt;
}

Result<std::optional<Rejection>> Verifier::check(const Plan& plan, Workload& workload, int set) {
  HEADNORM_TRY(const std::optional<std::string> damage, workload.find_damage(set));
  if (damage) return std::optional(Rejection{"out_of_bounds", *damage});
  const std::vector<OutputRanges>& ranges = ranges_for(plan);
  for (std::int64_t row : workload.shape().checked_rows) {
    const OutputRanges& expected = ranges[static_cast<std::size_t>(row % data_->row_count())];
    for (Operand output : {Operand::y, Operand::residual_out}) {
      if (!has_operand(spec_, output)) continue;
      HEADNORM_TRY(const std::vector<float> stored, workload.read_row(set, output, row));
      if (const auto mismatch = find_mismatch(stored, output == Operand::y ? expected.y : expected.residual_out))
        return std::optional(Rejection{"incorrect", fmt::format("{} row {}, {}", to_text(output), row, *mismatch)});
    }
  }
  return std::optional<Rejection>();
}

}  // namespace headnorm
