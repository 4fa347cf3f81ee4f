#include "tests/support/random_launches.h"

#include <fmt/format.h>

namespace headnorm::test {
namespace {

HostSchedule random_schedule(Random& random, Mode mode) {
  HostSchedule s;
  s.form = pick<HostForm>(random, {HostForm::reg, HostForm::rot, HostForm::pipe, HostForm::split, HostForm::split});
  s.heads = pick<int>(random, {1, 1, 2, 4, 8, 16, 16});
  s.block_bytes = pick<std::int64_t>(random, {1, 64, 300, 1024, 2048, 8192});
  s.chunk_lines = pick<int>(random, {1, 2, 4, 8});
  s.prefetch = pick<Prefetch>(random, {Prefetch::none, Prefetch::t0, Prefetch::t1, Prefetch::nta});
  s.prefetch_at = pick<PrefetchAt>(random, {PrefetchAt::read, PrefetchAt::write});
  s.prefetch_bytes = pick<std::int64_t>(random, {64, 4096, 16384});
  s.store = pick<StoreKind>(random, {StoreKind::nt, StoreKind::plain});
  if (mode == Mode::batch_invariant) return s;  // which fixes the rest
  s.accumulators = pick<int>(random, {1, 2, 4, 8});
  s.rsqrt = pick<RsqrtForm>(random, {RsqrtForm::exact, RsqrtForm::newton});
  s.unpack = pick<Unpack>(random, {Unpack::even_odd, Unpack::widen});
  return s;
}

Plan random_plan(Random& random, const KernelSpec& spec, const Target& target) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    const Result<Plan> plan = make_plan(spec, random_schedule(random, spec.mode), target);
    if (plan.ok()) return *plan;
  }
  return *make_plan(spec, default_schedule(spec, target), target);
}

}  // namespace

std::string to_text(const RandomLaunch& launch) {
  return fmt::format("spec {}\nschedule {}\ntarget {} rows {} {}", to_text(launch.plan.spec), to_text(launch.plan.schedule),
                     to_text(launch.plan.target), launch.rows, to_text(launch.layout));
}

RandomLaunch random_launch(Random& random, const std::vector<HostIsa>& isas) {
  const std::int64_t max_width = pick<std::int64_t>(random, {32, 64, 64, 64, 64, 128, 256, 256, 256, 700, 700, 4096});
  const KernelSpec spec = random_spec(random, max_width, {Dtype::bf16, Dtype::f32, Dtype::bf16, Dtype::f32, Dtype::f16});
  const std::int64_t rows = pick<std::int64_t>(random, {1, 2, 3, 4, 5, 7, 8, 13});
  const Target target = make_host_target(pick(random, isas));
  return {random_plan(random, spec, target), rows, random_layout(random, spec, Addresses::any)};
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

std::vector<RowValues> fill_random(Random& random, LaunchTensors& tensors) {
  RowValues values;
  fill_random_weights(random, tensors.spec(), values);
  tensors.set_weights(values);
  std::vector<RowValues> inputs;
  for (std::int64_t row = 0; row < tensors.rows(); ++row) {
    fill_random_row(random, tensors.spec(), values);
    tensors.set_row(row, values);
    inputs.push_back(tensors.inputs(row));
  }
  return inputs;
}

}  // namespace headnorm::test
