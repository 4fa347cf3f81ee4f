#include "cli/verify_grid.h"

#include <algorithm>
#include <array>

#include "core/text.h"
#include "tuner/search_space.h"

namespace headnorm::cli {
namespace {

struct Widths {
  std::int64_t width, head_size;
};

// Whole vectors, tails, one head, many heads, odd sizes, single elements.
constexpr Widths kWidths[] = {{768, 256}, {1024, 256}, {1152, 288}, {640, 320},  {384, 64}, {96, 8}, {4096, 256}, {1000, 1000},
                              {208, 104}, {129, 43},   {31, 31},    {1000, 250}, {24, 3},   {7, 1},  {1, 1}};

struct Dtypes {
  Dtype x, weight, y;
};
constexpr Dtypes kDtypeSets[] = {{Dtype::bf16, Dtype::bf16, Dtype::bf16},
                                 {Dtype::f32, Dtype::f32, Dtype::f32},
                                 {Dtype::bf16, Dtype::f32, Dtype::bf16},
                                 {Dtype::f32, Dtype::bf16, Dtype::bf16},
                                 {Dtype::f16, Dtype::f16, Dtype::f16}};

enum class Seeds { per_head, over_width };

void add_gate(KernelSpec& spec, Seeds seeds, Sigma sigma) {
  spec.gate = Gate::seednorm;
  spec.seed_heads = seeds == Seeds::per_head ? spec.heads() : 1;
  spec.sigma = sigma;
}

// The options of one shape, one kind after the other.
std::vector<KernelSpec> variants(const KernelSpec& plain) {
  std::vector<KernelSpec> list;
  auto variant = [&](auto change) {
    KernelSpec spec = plain;
    change(spec);
    list.push_back(spec);
  };
  variant([](KernelSpec&) {});
  variant([](KernelSpec& s) { add_gate(s, Seeds::per_head, Sigma::tanh); });
  variant([](KernelSpec& s) { s.residual = Residual::add; });
  variant([](KernelSpec& s) { s.weight = WeightForm::shared; });
  variant([](KernelSpec& s) { add_gate(s, Seeds::over_width, Sigma::tanh); });
  variant([](KernelSpec& s) { s.weight = WeightForm::none; });
  variant([](KernelSpec& s) { s.weight = WeightForm::head; });
  variant([](KernelSpec& s) {
    s.residual = Residual::add;
    add_gate(s, Seeds::per_head, Sigma::sigmoid);
  });
  variant([](KernelSpec& s) { s.weight_offset = 1; });
  variant([](KernelSpec& s) { s.rounding = Rounding::llama; });
  variant([](KernelSpec& s) {
    s.residual = Residual::add;
    s.norm_input = NormInput::unrounded;
  });
  variant([](KernelSpec& s) {
    if (s.x_dtype == s.y_dtype) s.residual = Residual::inplace;
  });
  variant([](KernelSpec& s) { add_gate(s, Seeds::per_head, Sigma::softsign); });
  variant([](KernelSpec& s) { s.eps = 1e-3; });
  variant([](KernelSpec& s) {
    s.residual = Residual::add;
    s.residual_scale = 2.8284;
  });
  variant([](KernelSpec& s) {
    s.mode = Mode::batch_invariant;
    add_gate(s, Seeds::over_width, Sigma::tanh);
  });
  variant([](KernelSpec& s) { s.mode = Mode::safe_range; });
  variant([](KernelSpec& s) {
    s.mode = Mode::safe_range;
    s.residual = Residual::add;
    add_gate(s, Seeds::over_width, Sigma::softsign);
  });
  variant([](KernelSpec& s) { add_gate(s, Seeds::over_width, Sigma::hardtanh); });
  return list;
}

constexpr std::size_t kStandardVariants = 2;  // of each shape and dtype set; they move on from one to the next
constexpr std::size_t kStandardPlans = 2, kFullPlans = 8;

}  // namespace

Result<Grid> parse_grid(std::string_view text) {
  if (text == "standard") return Grid::standard;
  if (text == "full") return Grid::full;
  return user_error(fmt::format("--grid does not know '{}'", text), "use --grid standard or --grid full");
}

std::vector<KernelSpec> grid_specs(Grid grid) {
  std::vector<KernelSpec> specs;
  std::size_t next = 0;
  for (const Widths& widths : kWidths) {
    for (const Dtypes& dtypes : kDtypeSets) {
      KernelSpec plain;
      plain.width = widths.width;
      plain.head_size = widths.head_size;
      plain.x_dtype = plain.residual_dtype = dtypes.x;
      plain.weight_dtype = dtypes.weight;
      plain.y_dtype = dtypes.y;
      const std::vector<KernelSpec> all = variants(plain);
      for (std::size_t i = 0; i < (grid == Grid::full ? all.size() : kStandardVariants); ++i) {
        const Result<KernelSpec> spec = make_spec(grid == Grid::full ? all[i] : all[next++ % all.size()]);
        if (spec.ok() && std::ranges::find(specs, *spec) == specs.end()) specs.push_back(*spec);
      }
    }
  }
  return specs;
}

Result<std::vector<Plan>> grid_plans(const KernelSpec& spec, const Target& target, Grid grid) {
  HEADNORM_TRY(const SearchSpace space, build_search_space(spec, target));
  HEADNORM_TRY(const Plan unaligned, make_plan(spec, unaligned_schedule(space.plans.front()), target));
  std::vector<Plan> plans = {space.plans.front()};
  auto add = [&](const Plan& plan) {
    auto same = [&](const Plan& other) { return other.schedule == plan.schedule; };
    if (std::ranges::none_of(plans, same)) plans.push_back(plan);
  };
  add(unaligned);
  const std::size_t wanted = std::min(space.plans.size(), grid == Grid::full ? kFullPlans : kStandardPlans);
  for (std::size_t i = 0; i < wanted; ++i) {
    const Plan& plan = space.plans[(2 * i + 1) * space.plans.size() / (2 * wanted)];
    add(plan);
    // The secondary choices too: one of them each time.
    if (const std::vector<Plan> refined = refine(plan); !refined.empty()) add(refined[i % refined.size()]);
  }
  return plans;
}

std::vector<std::int64_t> grid_rows(Grid grid) {
  if (grid == Grid::full) return {1, 2, 7, 64};
  return {1, 7};
}

}  // namespace headnorm::cli
