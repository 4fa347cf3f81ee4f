#include "tests/support/hand_cases.h"

#include <cmath>

namespace headnorm::test {
namespace {

using Row = std::vector<double>;

Row constant(std::int64_t size, double value) { return Row(static_cast<std::size_t>(size), value); }

struct Weights {
  Row gamma, alpha, beta;
};

HandCase make_case(std::string name, std::string_view spec_text, Row x, Weights weights, Row y, Row residual = {}) {
  HandCase made{std::move(name), *parse_spec(spec_text), {}, std::move(y)};
  made.inputs[static_cast<std::size_t>(Operand::x)] = std::move(x);
  made.inputs[static_cast<std::size_t>(Operand::residual)] = std::move(residual);
  made.inputs[static_cast<std::size_t>(Operand::gamma)] = std::move(weights.gamma);
  made.inputs[static_cast<std::size_t>(Operand::alpha)] = std::move(weights.alpha);
  made.inputs[static_cast<std::size_t>(Operand::beta)] = std::move(weights.beta);
  return made;
}

void add_statistic_cases(std::vector<HandCase>& cases) {
  for (double x : {300.0, 60000.0})
    cases.push_back(make_case("SquaresBeyondHalfPrecision", "width=2048,head_size=2048,x=f16,y=f16,weight=channel:f16",
                              constant(2048, x), {constant(2048, 1), {}, {}}, constant(2048, 1)));
  cases.push_back(make_case("EpsInsideTheRoot", "width=64,head_size=64,x=f32,y=f32,weight=channel:f32", constant(64, 0x1p-10),
                            {constant(64, 1), {}, {}}, constant(64, 0.6986730)));
  const double milli = round_to_dtype(1e-3, Dtype::f32);
  cases.push_back(make_case("EpsOfTheSpec", "width=64,head_size=64,x=f32,y=f32,weight=channel:f32,eps=1e-06", constant(64, milli),
                            {constant(64, 1), {}, {}}, constant(64, 0.7071068)));
  cases.push_back(make_case("LargerEpsOfTheSpec", "width=64,head_size=64,x=f32,y=f32,weight=channel:f32,eps=1e-05",
                            constant(64, milli), {constant(64, 1), {}, {}}, constant(64, 0.3015113)));
  Row two_heads = constant(64, 1);
  two_heads.resize(128, 100);
  cases.push_back(make_case("StatisticPerHead", "width=128,head_size=64,x=bf16,y=bf16,weight=channel:bf16", two_heads,
                            {constant(128, 1), {}, {}}, constant(128, 1)));
  cases.push_back(make_case("DivisorWithoutPaddingWidth1000", "width=1000,head_size=1000,x=bf16,y=bf16,weight=channel:bf16",
                            constant(1000, 1), {constant(1000, 1), {}, {}}, constant(1000, 1)));
  cases.push_back(make_case("DivisorWithoutPaddingHead96", "width=288,head_size=96,x=bf16,y=bf16,weight=channel:bf16",
                            constant(288, 1), {constant(288, 1), {}, {}}, constant(288, 1)));
  cases.push_back(make_case("ZeroRow", "width=64,head_size=32,x=bf16,y=bf16,weight=channel:bf16", constant(64, 0),
                            {constant(64, 1), {}, {}}, constant(64, 0)));
}

void add_rounding_cases(std::vector<HandCase>& cases) {
  cases.push_back(make_case("WeightMultipliesBeforeTheCast", "width=2,head_size=2,x=bf16,y=bf16,weight=channel:bf16", {1, 5},
                            {{1, 1.015625}, {}, {}}, {0.27734375, 1.40625}));
  cases.push_back(make_case("CastBeforeTheWeight", "width=2,head_size=2,x=bf16,y=bf16,weight=channel:bf16,rounding=llama", {1, 5},
                            {{1, 1.015625}, {}, {}}, {0.27734375, 1.4140625}));
  cases.push_back(make_case("OffsetAddedInF32", "width=2,head_size=2,x=bf16,y=bf16,weight=channel:bf16,weight_offset=1", {1, 7},
                            {{0x1p-9, 0x1p-9}, {}, {}}, {0.2001953125, 1.40625}));
  cases.push_back(make_case("NormTakesTheRoundedSum", "width=2,head_size=2,x=bf16,y=bf16,weight=channel:bf16,residual=add:bf16",
                            {256, 1}, {{1, 1}, {}, {}}, {1.4140625, 0.00552368}, {1, 0}));
  cases.push_back(make_case("NormTakesTheF32Sum",
                            "width=2,head_size=2,x=bf16,y=bf16,weight=channel:bf16,residual=add:bf16,norm_input=unrounded",
                            {256, 1}, {{1, 1}, {}, {}}, {1.4140625, 0.00549316}, {1, 0}));
  cases.push_back(make_case("ScaledResidual",
                            "width=2,head_size=2,x=f32,y=f32,weight=channel:f32,residual=add:f32,residual_scale=2", {1, 1},
                            {{1, 1}, {}, {}}, {0.55708601, 1.29986737}, {1, 3}));
  Row weight, rounded;
  for (int i = 0; i < 512; ++i) {
    weight.push_back(1 + i / 4096.0);
    rounded.push_back(round_to_dtype(weight.back(), Dtype::bf16));
  }
  cases.push_back(make_case("F32WeightOfBf16Input", "width=512,head_size=64,x=bf16,y=bf16,weight=channel:f32,eps=0",
                            constant(512, 1), {weight, {}, {}}, rounded));
}

void add_gate_cases(std::vector<HandCase>& cases) {
  const Weights half{{0, 0, 0, 0}, {1, 1, 1, 1}, {.5, .5, 0, 0}};
  const std::string gated = "width=4,head_size=2,x=f32,y=f32,weight=channel:f32,gate=seednorm,seed_heads=";
  cases.push_back(make_case("SeedOverTheWidth", gated + "1", constant(4, 1), half, constant(4, 0.761594)));
  cases.push_back(make_case("SeedPerHead", gated + "2", constant(4, 1), half, {0.761594, 0.761594, 0, 0}));
  const std::string saturated = "width=128,head_size=64,x=bf16,y=bf16,weight=channel:bf16,gate=seednorm,seed_heads=";
  for (const char* seed_heads : {"1", "2"}) {
    cases.push_back(make_case("SaturatedGate", saturated + seed_heads, constant(128, 100),
                              {constant(128, 1), constant(128, 2), constant(128, 100)}, constant(128, 3)));
    cases.push_back(make_case("SaturatedNegativeGate", saturated + seed_heads, constant(128, 100),
                              {constant(128, 1), constant(128, 2), constant(128, -100)}, constant(128, -1)));
  }
}

}  // namespace

std::vector<HandCase> hand_cases() {
  std::vector<HandCase> cases;
  add_statistic_cases(cases);
  add_rounding_cases(cases);
  add_gate_cases(cases);
  return cases;
}

bool is_hand_value(double stored, double expected) { return std::fabs(stored - expected) <= 1e-6 * std::fabs(expected); }

}  // namespace headnorm::test
