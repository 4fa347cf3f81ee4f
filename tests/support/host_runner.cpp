#include "tests/support/host_runner.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "generator/generator.h"
#include "tests/support/random_launches.h"
#include "tests/support/reference.h"

namespace headnorm::test {

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
    const Dtype dtype = operand_dtype(spec, operand);
    for (std::size_t i = 0; i < stored.size(); ++i) {
      const bool right = operand == Operand::y ? is_right_y(stored[i], exact[i], errors, i, dtype)
                                               : is_within_bound(stored[i], exact[i], bound[i], dtype);
      if (!right)
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
  const std::vector<RowValues> inputs = fill_random(random, tensors);
  runner.run(plan, tensors);
  const Plan served = runner.serving_plan(plan, tensors);
  for (std::int64_t row = 0; row < rows; ++row)
    ASSERT_EQ(check_row(served, tensors, row, inputs[static_cast<std::size_t>(row)]), "");
}

}  // namespace headnorm::test
