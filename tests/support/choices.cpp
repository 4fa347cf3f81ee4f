#include "tests/support/choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <type_traits>

namespace headnorm::test {
namespace {

template <class T>
std::string choice(const char* field, T value) {
  if constexpr (std::is_enum_v<T>)
    return fmt::format("{} {}", field, to_text(value));
  else
    return fmt::format("{} {}", field, value);
}

template <class T>
void expect(Choices& choices, const char* field, std::initializer_list<T> values) {
  for (T value : values) choices[choice(field, value)] = 0;
}

Choices common_choices() {
  Choices choices;
  for (const char* field : {"x", "y", "residual dtype", "weight dtype"})
    expect(choices, field, {Dtype::f32, Dtype::f16, Dtype::bf16});
  expect(choices, "weight", {WeightForm::none, WeightForm::channel, WeightForm::shared, WeightForm::head});
  expect(choices, "residual", {Residual::none, Residual::add, Residual::inplace});
  expect(choices, "gate", {Gate::none, Gate::seednorm});
  expect(choices, "sigma", {Sigma::tanh, Sigma::sigmoid, Sigma::softsign, Sigma::hardtanh});
  expect(choices, "rounding", {Rounding::once, Rounding::llama});
  expect(choices, "norm_input", {NormInput::rounded, NormInput::unrounded});
  expect(choices, "mode", {Mode::standard, Mode::batch_invariant, Mode::safe_range});
  expect(choices, "alias",
         {Alias::none, Alias::y_over_x, Alias::residual_out_over_residual, Alias::residual_out_over_x, Alias::inplace});
  expect(choices, "heads", {"one", "several"});
  expect(choices, "seed heads", {"fewer than heads", "as many as heads", "more than heads"});
  for (const char* field : {"weight_offset", "residual_scale", "seed_scale"}) expect(choices, field, {"default", "other"});
  expect(choices, "eps", {"zero", "above"});
  expect(choices, "addresses", {"as allocated", "moved"});
  expect(choices, "strides", {"width", "with gaps"});
  return choices;
}

void count_spec(Choices& choices, const KernelSpec& spec) {
  ++choices[choice("x", spec.x_dtype)];
  ++choices[choice("y", spec.y_dtype)];
  ++choices[choice("weight", spec.weight)];
  ++choices[choice("residual", spec.residual)];
  ++choices[choice("gate", spec.gate)];
  ++choices[choice("rounding", spec.rounding)];
  ++choices[choice("mode", spec.mode)];
  ++choices[choice("heads", spec.heads() == 1 ? "one" : "several")];
  ++choices[choice("eps", spec.eps == 0 ? "zero" : "above")];
  if (spec.has_gamma()) ++choices[choice("weight_offset", spec.weight_offset == 0 ? "default" : "other")];
  if (spec.has_gamma() || spec.has_gate()) ++choices[choice("weight dtype", spec.weight_dtype)];
  if (spec.has_residual()) {
    ++choices[choice("residual dtype", spec.residual_dtype)];
    ++choices[choice("residual_scale", spec.residual_scale == 1 ? "default" : "other")];
    if (spec.residual_dtype != Dtype::f32) ++choices[choice("norm_input", spec.norm_input)];
  }
  if (!spec.has_gate()) return;
  ++choices[choice("sigma", spec.sigma)];
  ++choices[choice("seed_scale", spec.seed_scale == 1 ? "default" : "other")];
  ++choices[choice("seed heads", spec.seed_heads < spec.heads()    ? "fewer than heads"
                                 : spec.seed_heads == spec.heads() ? "as many as heads"
                                                                   : "more than heads")];
}

void count_host(Choices& choices, const HostSchedule& schedule, const HostPlan& shape) {
  ++choices[choice("form", schedule.form)];
  ++choices[choice("store", schedule.store)];
  ++choices[choice("rsqrt", schedule.rsqrt)];
  ++choices[choice("unpack", schedule.unpack)];
  ++choices[choice("accumulators", schedule.accumulators)];
  ++choices[choice("prefetch", schedule.prefetch)];
  if (schedule.prefetch != Prefetch::none) ++choices[choice("prefetch_at", schedule.prefetch_at)];
  ++choices[choice("tail", shape.tail_elements == 0 ? "none" : "some")];
  ++choices[choice("code", shape.unrolled ? "unrolled" : "loop")];
}

void count_gpu(Choices& choices, const GpuSchedule& schedule) {
  ++choices[choice("lanes", schedule.lanes <= 32 ? "of a warp" : "of several warps")];
  ++choices[choice("vector", schedule.vector_elements)];
  ++choices[choice("residency", schedule.residency)];
  ++choices[choice("grid", schedule.grid)];
  ++choices[choice("weights", schedule.weights)];
  ++choices[choice("access", schedule.access_bytes)];
  ++choices[choice("cluster", schedule.cluster)];
  ++choices[choice("staging", schedule.staging)];
  if (schedule.staging != Staging::none) ++choices[choice("stages", schedule.stages)];
  ++choices[choice("cache", schedule.cache)];
  ++choices[choice("launch", schedule.launch)];
}

}  // namespace

Choices host_choices(const std::vector<HostIsa>& isas) {
  Choices choices = common_choices();
  expect(choices, "form", {HostForm::reg, HostForm::rot, HostForm::pipe, HostForm::split});
  expect(choices, "store", {StoreKind::nt, StoreKind::plain});
  expect(choices, "rsqrt", {RsqrtForm::exact});
  const auto estimates = [](HostIsa isa) { return isa == HostIsa::x86_64_v4 || isa == HostIsa::x86_64_v4_bf16; };
  if (std::any_of(isas.begin(), isas.end(), estimates)) expect(choices, "rsqrt", {RsqrtForm::newton});
  expect(choices, "unpack", {Unpack::even_odd, Unpack::widen});
  expect(choices, "accumulators", {1, 2, 4, 8});
  expect(choices, "prefetch", {Prefetch::none, Prefetch::t0, Prefetch::t1, Prefetch::nta});
  expect(choices, "prefetch_at", {PrefetchAt::read, PrefetchAt::write});
  expect(choices, "tail", {"none", "some"});
  expect(choices, "code", {"unrolled", "loop"});
  return choices;
}

Choices gpu_choices() {
  Choices choices = common_choices();
  expect(choices, "lanes", {"of a warp", "of several warps"});
  expect(choices, "vector", {1, 2, 4, 8, 16});
  expect(choices, "residency", {Residency::registers, Residency::shared, Residency::reload});
  expect(choices, "grid", {GridForm::once, GridForm::persistent});
  expect(choices, "weights", {WeightLoad::after, WeightLoad::before});
  expect(choices, "access", {2, 4, 8, 16, 32});
  expect(choices, "cluster", {1, 2, 4, 8, 16});
  expect(choices, "staging", {Staging::none, Staging::async, Staging::bulk});
  expect(choices, "stages", {1, 2, 3, 8});
  expect(choices, "cache", {CacheUse::plain, CacheUse::stream});
  expect(choices, "launch", {LaunchForm::plain, LaunchForm::dependent, LaunchForm::weights_ahead});
  return choices;
}

void count_choices(Choices& choices, const Plan& plan, const Layout& layout) {
  count_spec(choices, plan.spec);
  ++choices[choice("alias", layout.alias)];
  ++choices[choice("addresses", layout.offset_bytes == Layout{}.offset_bytes ? "as allocated" : "moved")];
  ++choices[choice("strides", layout.strides == Layout{}.strides ? "width" : "with gaps")];
  if (plan.target.kind == TargetKind::host)
    count_host(choices, plan.host_schedule(), plan.host());
  else
    count_gpu(choices, plan.gpu_schedule());
}

std::string rarer_than(const Choices& choices, int least) {
  std::string rare;
  for (const auto& [name, count] : choices) {
    if (count < least) rare += fmt::format("{}: {}\n", name, count);
  }
  return rare;
}

}  // namespace headnorm::test
