// Sweep program: the maths of one kernel as data, over one group of a row (see core/plan.h), without lanes, SIMD or memory spaces.
//
// A program is a list of values in order of evaluation, cut into steps. A sweep visits every element of the group; its values are
// per element. A scalar step follows a sweep; its values are per head or per seed head. Reductions stand in a sweep and give a
// value per head or seed head that is complete after it. Operands broadcast: an elementwise operation may use per-head values.
// All arithmetic is f32; every rounding, fma and root is explicit, so that each backend does the same operations.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/launch_abi.h"
#include "core/plan.h"
#include "core/result.h"

namespace headnorm::program {

enum class Op : std::uint8_t {
  constant,    // imm[0], rounded to f32
  load,        // the element of `operand`, converted to f32
  store,       // a0 rounded to the dtype of `operand`; no value
  add,         // a0 + a1
  sub,         // a0 - a1
  mul,         // a0 * a1
  div,         // a0 / a1, correctly rounded
  fma,         // a0 * a1 + a2, one rounding
  abs,         // |a0|
  clamp,       // a0 limited to [imm[0], imm[1]]; NaN stays NaN
  rsqrt,       // 1 / sqrt(a0), in the form that the schedule names
  round_to,    // a0 rounded to `dtype` and back
  reduce_dot,  // sum over the elements of a partition of a0 * a1, accumulated by fma
  reduce_max,  // largest a0 over the elements of a partition, and at least 0; NaN may be passed over
  // The power of two that brings a0 >= 0 into [1, 2), from the bits of its exponent, limited to [2^-126, 2^126]: 2^126 for 0,
  // 2^-126 for infinity and NaN. Multiplying by it is exact, but for underflow.
  inverse_power,
};

// What a value is one of.
enum class Domain : std::uint8_t {
  uniform,  // one for all rows (constants)
  seed,     // per seed head
  head,     // per head
  element,
};

using ValueId = std::int32_t;
inline constexpr ValueId kNoValue = -1;

struct Instruction {
  Op op = Op::constant;
  Domain domain = Domain::uniform;  // of the value
  std::array<ValueId, 3> arguments{kNoValue, kNoValue, kNoValue};
  std::array<double, 2> immediates{0, 0};
  Operand operand = Operand::x;  // load, store
  Dtype dtype = Dtype::f32;      // load, store: of the operand; round_to
  std::string name;              // as in the maths; may be empty
};

enum class StepKind : std::uint8_t { sweep, scalars };

struct Step {
  StepKind kind;
  ValueId begin, end;  // instructions [begin, end)
};

struct Program {
  KernelSpec spec;
  std::vector<Instruction> instructions;  // a ValueId is an index
  std::vector<Step> steps;                // cover all instructions in order; sweep and scalars alternate, a sweep first
};

int argument_count(Op op);
bool is_reduction(Op op);
const char* to_text(Op op);
const char* to_text(Domain domain);

// Every rule: arguments defined before use, domains that broadcast (a coarser value never depends on a finer one but through a
// reduction), reductions used after their sweep only, loads and stores of operands that the spec has, each output stored once and
// in the last sweep (so that in-place operands are read before they are written). Error kind: internal.
Result<void> verify(const Program& program);

// One line per instruction, e.g. "  %3 sum_sq = reduce_dot head %2, %2". Stable: golden tests and digests use it.
std::string print(const Program& program);

// Element values of earlier sweeps that `sweep` (an index of steps) uses; and those of `sweep` that later ones use.
std::vector<ValueId> kept_values(const Program& program, std::size_t sweep);
std::vector<ValueId> values_to_keep(const Program& program, std::size_t sweep);

// Makes each sweep compute its own element values from loads and from those of `keep`, which alone remain as kept_values. For
// backends that read again, or keep values elsewhere.
Program rematerialise(const Program& program, const std::vector<ValueId>& keep = {});

// The program as the residency of a GPU plan has it: what a sweep does not find in registers or shared memory it computes again.
Program form_of(const Plan& plan, const Program& program);

}  // namespace headnorm::program
