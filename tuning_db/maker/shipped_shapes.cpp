#include "tuning_db/maker/shipped_shapes.h"

#include <algorithm>
#include <map>
#include <set>

#include "cli/presets.h"
#include "core/plan.h"

namespace headnorm::tables {
namespace {

constexpr std::int64_t kMeasuredRows[] = {1, 16, 256, 4096, 16384};
constexpr std::int64_t kMostMeasuredBytes = std::int64_t{256} << 20;  // of a launch: larger ones take long

void set_dtype(KernelSpec& spec, Dtype dtype) { spec.x_dtype = spec.residual_dtype = spec.weight_dtype = spec.y_dtype = dtype; }

// As the preset has it, and with what users add.
std::vector<KernelSpec> variants_of(const KernelSpec& preset) {
  std::vector<KernelSpec> variants;
  const auto add = [&](Dtype dtype, Residual residual, Gate gate) {
    KernelSpec spec = preset;
    set_dtype(spec, dtype);
    spec.residual = residual;
    spec.gate = gate;
    spec.seed_heads = gate == Gate::seednorm ? spec.heads() : 0;
    if (Result<KernelSpec> canonical = make_spec(spec); canonical.ok()) variants.push_back(*std::move(canonical));
  };
  for (Gate gate : {Gate::none, Gate::seednorm}) {
    for (Residual residual : {Residual::none, Residual::add}) add(Dtype::bf16, residual, gate);
  }
  add(Dtype::bf16, Residual::inplace, Gate::none);
  for (Dtype dtype : {Dtype::f16, Dtype::f32}) {
    for (Residual residual : {Residual::none, Residual::add}) add(dtype, residual, Gate::none);
  }
  return variants;
}

}  // namespace

std::vector<ShippedShape> predicted_shapes() {
  std::vector<ShippedShape> shapes;
  std::map<std::string, std::size_t> places;
  for (const cli::Preset& preset : cli::presets()) {
    const Result<KernelSpec> spec = cli::preset_spec(preset);
    if (!spec.ok()) continue;  // listed for completeness, and not computed by this version
    for (const KernelSpec& variant : variants_of(*spec)) {
      const auto [place, is_new] = places.try_emplace(to_text(variant), shapes.size());
      if (is_new) shapes.push_back({variant, {std::begin(kRowBuckets), std::end(kRowBuckets)}});
      shapes[place->second].rows.push_back(preset.rows);
    }
  }
  for (ShippedShape& shape : shapes) {
    std::ranges::sort(shape.rows);
    shape.rows.erase(std::ranges::unique(shape.rows).begin(), shape.rows.end());
  }
  return shapes;
}

std::vector<ShippedShape> measured_shapes() {
  std::vector<ShippedShape> shapes;
  std::set<std::pair<std::int64_t, std::int64_t>> known;
  const auto add = [&](const cli::Preset& preset, Dtype dtype, Residual residual) {
    KernelSpec spec;
    spec.width = preset.width;
    spec.head_size = preset.head_size;
    spec.residual = residual;
    set_dtype(spec, dtype);
    const Result<KernelSpec> canonical = make_spec(spec);
    if (!canonical.ok()) return;
    shapes.push_back({*canonical, {}});
    const Traffic traffic = minimum_traffic(*canonical);
    for (const std::int64_t rows : kMeasuredRows) {
      if (traffic.total_bytes(rows) <= kMostMeasuredBytes) shapes.back().rows.push_back(rows);
    }
  };
  for (const cli::Preset& preset : cli::presets()) {
    if (!known.emplace(preset.width, preset.head_size).second) continue;
    add(preset, Dtype::bf16, Residual::none);
    add(preset, Dtype::bf16, Residual::add);
    add(preset, Dtype::f32, Residual::none);
  }
  return shapes;
}

}  // namespace headnorm::tables
