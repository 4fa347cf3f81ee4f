#include "tests/support/host_runner.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "generator/generator.h"
#include "tests/support/reference.h"

namespace headnorm::test {
namespace {

std::size_t index_of(Operand operand) { return static_cast<std::size_t>(operand); }

// The operand whose memory `operand` uses.
Operand owner_of(Alias alias, Operand operand) {
  if (operand == Operand::y && (alias == Alias::y_over_x || alias == Alias::inplace)) return Operand::x;
  if (operand == Operand::residual_out) {
    if (alias == Alias::residual_out_over_residual || alias == Alias::inplace) return Operand::residual;
    if (alias == Alias::residual_out_over_x) return Operand::x;
  }
  return operand;
}

}  // namespace

const char* to_text(Alias alias) {
  constexpr const char* kNames[] = {"none", "y_over_x", "residual_out_over_residual", "residual_out_over_x", "inplace"};
  return kNames[static_cast<int>(alias)];
}

bool is_allowed(const KernelSpec& spec, Alias alias) {
  if (spec.residual == Residual::inplace) return alias == Alias::inplace;
  switch (alias) {
    case Alias::none:
      return true;
    case Alias::y_over_x:
      return spec.y_dtype == spec.x_dtype;
    case Alias::residual_out_over_residual:
      return spec.has_residual();
    case Alias::residual_out_over_x:
      return spec.has_residual() && spec.residual_dtype == spec.x_dtype;
    case Alias::inplace:
      return spec.has_residual() && spec.y_dtype == spec.x_dtype;
  }
  return false;
}

Layout random_layout(Random& random, const KernelSpec& spec, Addresses addresses) {
  Layout layout;
  std::vector<Alias> aliases;
  for (Alias alias : {Alias::none, Alias::none, Alias::none, Alias::y_over_x, Alias::residual_out_over_residual,
                      Alias::residual_out_over_x, Alias::inplace}) {
    if (is_allowed(spec, alias)) aliases.push_back(alias);
  }
  layout.alias = pick(random, aliases);
  if (random() % 2 == 0) return layout;
  for (Operand operand : kOperands) {
    if (!has_operand(spec, operand)) continue;
    const std::int64_t bytes = size_bytes(operand_dtype(spec, operand));
    if (is_row_operand(operand)) layout.stride(operand) = spec.width + 64 / bytes + static_cast<std::int64_t>(random() % 40);
    layout.offset(operand) = addresses == Addresses::any ? pick<std::int64_t>(random, {0, 0, 2, 4, 8, 16, 32, 1, 63})
                                                         : bytes * pick<std::int64_t>(random, {0, 0, 1, 2, 3, 4, 8});
  }
  return layout;
}

std::string to_text(const Layout& layout) {
  return fmt::format("strides {} offsets {} alias {}", fmt::join(layout.strides, ","), fmt::join(layout.offset_bytes, ","),
                     to_text(layout.alias));
}

LaunchTensors::LaunchTensors(const KernelSpec& spec, std::int64_t rows, const Layout& layout) : spec_(spec), rows_(rows) {
  for (Operand operand : kOperands) {
    const Operand owner = owner_of(layout.alias, operand);
    owner_[index_of(operand)] = index_of(owner);
    if (!has_operand(spec, operand) || owner != operand) continue;
    const std::int64_t elements = operand_elements(spec, operand);
    const std::int64_t stride = layout.strides[index_of(operand)] != 0 ? layout.strides[index_of(operand)] : elements;
    tensors_[index_of(operand)].emplace(operand_dtype(spec, operand), is_row_operand(operand) ? rows : 1, elements, stride,
                                        layout.offset_bytes[index_of(operand)]);
  }
}

void LaunchTensors::set_weights(const RowValues& values) {
  for (Operand operand : {Operand::gamma, Operand::alpha, Operand::beta}) {
    if (has_operand(spec_, operand)) tensor(operand).set_row(0, values[index_of(operand)]);
  }
}

void LaunchTensors::set_row(std::int64_t row, const RowValues& values) {
  for (Operand operand : {Operand::x, Operand::residual}) {
    if (has_operand(spec_, operand)) tensor(operand).set_row(row, values[index_of(operand)]);
  }
}

RowValues LaunchTensors::inputs(std::int64_t row) {
  RowValues values;
  for (Operand operand : kOperands) {
    if (has_operand(spec_, operand) && !is_output(operand))
      values[index_of(operand)] = tensor(operand).row(is_row_operand(operand) ? row : 0);
  }
  return values;
}

LaunchArguments LaunchTensors::arguments() {
  LaunchArguments arguments;
  arguments.rows = rows_;
  for (Operand operand : kOperands) {
    if (!has_operand(spec_, operand)) continue;
    arguments.address(operand) = tensor(operand).address();
    arguments.stride(operand) = tensor(operand).stride();
  }
  return arguments;
}

void LaunchTensors::seal() {
  for (auto& tensor : tensors_) {
    if (tensor) tensor->seal();
  }
}

std::string LaunchTensors::damage() {
  std::set<std::size_t> written;
  for (Operand operand : {Operand::y, Operand::residual_out}) written.insert(place(operand));
  for (Operand operand : kOperands) {
    const std::size_t index = index_of(operand);
    if (!tensors_[index]) continue;
    if (!tensors_[index]->are_guards_intact()) return fmt::format("wrote outside the rows of {}", headnorm::to_text(operand));
    if (written.count(index) == 0 && !tensors_[index]->is_unchanged())
      return fmt::format("wrote to {}", headnorm::to_text(operand));
  }
  return "";
}

HostRunner::HostRunner(int threads) : backend_(make_llvm_backend()), device_(std::move(make_host_device(threads)).value()) {}
HostRunner::~HostRunner() = default;

Result<std::shared_ptr<const LoadedKernel>> HostRunner::kernel(const Plan& plan) {
  auto& kernel = kernels_[entry_name(plan)];
  if (!kernel) {
    HEADNORM_TRY(const Artifact artifact, backend_->compile(plan));
    HEADNORM_TRY(kernel, device_->load(artifact, plan));
  }
  return kernel;
}

Plan HostRunner::serving_plan(const Plan& plan, LaunchTensors& tensors) const {
  if (satisfies_alignment(plan, tensors.arguments())) return plan;
  return *make_plan(plan.spec, unaligned_schedule(plan), plan.target);
}

void HostRunner::run(const Plan& plan, LaunchTensors& tensors) {
  const auto loaded = kernel(serving_plan(plan, tensors));
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  tensors.seal();
  const auto launched = device_->launch(**loaded, tensors.arguments());
  ASSERT_TRUE(launched.ok()) << launched.error().message;
  ASSERT_EQ(tensors.damage(), "");
}

std::vector<HostIsa> supported_isas() {
  std::vector<HostIsa> isas;
  for (HostIsa isa : kHostIsas) {
    if (host_supports(isa)) isas.push_back(isa);
  }
  return isas;
}

std::vector<Plan> plans_of_all_forms(const KernelSpec& spec, HostIsa isa) {
  std::vector<Plan> plans;
  std::set<std::string> seen;
  for (HostForm form : {HostForm::split, HostForm::pipe, HostForm::rot, HostForm::reg}) {
    for (StoreKind store : {StoreKind::plain, StoreKind::nt}) {
      for (RsqrtForm rsqrt : {RsqrtForm::exact, RsqrtForm::newton}) {
        for (int heads : {1, 4, 16}) {
          HostSchedule schedule;
          schedule.form = form;
          schedule.store = store;
          schedule.rsqrt = rsqrt;
          schedule.heads = heads;
          schedule.block_bytes = 1024;
          const Result<Plan> plan = make_plan(spec, schedule, make_host_target(isa));
          if (plan.ok() && seen.insert(to_text(plan->schedule)).second) plans.push_back(*plan);
        }
      }
    }
  }
  return plans;
}

std::string check_row(const Plan& plan, LaunchTensors& tensors, std::int64_t row, const RowValues& inputs) {
  const KernelSpec& spec = plan.spec;
  const ReferenceRow reference = reference_row(spec, inputs);
  const RowErrors errors = bound_errors(spec, arithmetic_of(plan), inputs);
  const auto check = [&](Operand operand, const std::vector<double>& exact, const std::vector<double>& bound) -> std::string {
    if (!has_operand(spec, operand)) return "";
    const std::vector<double> stored = tensors.tensor(operand).row(row);
    for (std::size_t i = 0; i < stored.size(); ++i) {
      if (!is_within_bound(stored[i], exact[i], bound[i], operand_dtype(spec, operand)))
        return fmt::format("{} row {} channel {}: {} is not {} to within {}", headnorm::to_text(operand), row, i, stored[i],
                           exact[i], bound[i]);
    }
    return "";
  };
  const std::string wrong = check(Operand::y, reference.y, errors.y);
  return wrong.empty() ? check(Operand::residual_out, reference.residual_out, errors.residual_out) : wrong;
}

void run_random_rows(HostRunner& runner, const Plan& plan, std::int64_t rows, const Layout& layout, Random& random) {
  LaunchTensors tensors(plan.spec, rows, layout);
  RowValues values;
  fill_random_weights(random, plan.spec, values);
  tensors.set_weights(values);
  std::vector<RowValues> inputs;
  for (std::int64_t row = 0; row < rows; ++row) {
    fill_random_row(random, plan.spec, values);
    tensors.set_row(row, values);
    inputs.push_back(tensors.inputs(row));
  }
  runner.run(plan, tensors);
  const Plan served = runner.serving_plan(plan, tensors);
  for (std::int64_t row = 0; row < rows; ++row)
    ASSERT_EQ(check_row(served, tensors, row, inputs[static_cast<std::size_t>(row)]), "");
}

}  // namespace headnorm::test
