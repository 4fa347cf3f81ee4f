// Expressions: the operations of a sweep program as CUDA C, and as the formula that a comment beside it shows.
#pragma once

#include <functional>
#include <string>

#include "generator/program/program.h"

namespace headnorm::cuda_c {

std::string type_name(Dtype dtype);  // "bf16", "f16", "float"
std::string literal(double value);   // "0.5f": the shortest that is the same f32

// Text of an argument.
using ArgumentText = std::function<std::string(program::ValueId)>;

// Each operation by the one intrinsic that does exactly it: nothing is left for a compiler to contract or approximate.
std::string render_operation(const program::Instruction& instruction, const ArgumentText& argument);

// The same of pairs of elements, by the helpers of templates/pairs.cu; for operations that have such a form (gpu::is_packed).
std::string render_pair_operation(const program::Instruction& instruction, const ArgumentText& pair);

// "u * inv_rms"; arguments that are expressions themselves are put in brackets where they have to be.
struct Formula {
  std::string text;
  int strength = 2;  // 0: a sum, 1: a product, 2: a name or a call
};
using ArgumentFormula = std::function<Formula(program::ValueId)>;
Formula render_formula(const program::Instruction& instruction, const ArgumentFormula& argument);

}  // namespace headnorm::cuda_c
