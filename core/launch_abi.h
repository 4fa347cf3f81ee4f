// The launch ABI, described once for the generator, the runtime and the documentation: which operands a kernel of a spec has, their
// dtypes and shapes, and the order of its parameters.
//
// GPU kernels take, in this order: the address of each operand present (order of kOperands), the row stride in elements (i64) of
// each row operand present (same order), and the number of rows (i64). Host kernels have one C signature for every spec, HostKernel
// below, with the same order inside the two arrays.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/kernel_spec.h"

namespace headnorm {

enum class Operand : std::uint8_t { x, residual, gamma, alpha, beta, y, residual_out };

inline constexpr int kOperandCount = 7;
inline constexpr Operand kOperands[kOperandCount] = {Operand::x,    Operand::residual, Operand::gamma,       Operand::alpha,
                                                     Operand::beta, Operand::y,        Operand::residual_out};

const char* to_text(Operand operand);

constexpr bool is_output(Operand operand) { return operand == Operand::y || operand == Operand::residual_out; }
// Row operands are [R, D] with a row stride; the others are weights.
constexpr bool is_row_operand(Operand operand) {
  return operand == Operand::x || operand == Operand::residual || is_output(operand);
}

bool has_operand(const KernelSpec& spec, Operand operand);
Dtype operand_dtype(const KernelSpec& spec, Operand operand);
// Elements of a weight, or of one row of a row operand.
std::int64_t operand_elements(const KernelSpec& spec, Operand operand);

enum class ParameterKind : std::uint8_t { pointer, stride, rows };

struct Parameter {
  ParameterKind kind;
  Operand operand;   // pointer and stride
  std::string name;  // "x", "x_stride", "rows"
};

// The parameters of a GPU kernel in order; 8 bytes each.
std::vector<Parameter> launch_parameters(const KernelSpec& spec);

// Number of pointers and of strides, and the place of an operand among them (-1 if absent).
int pointer_count(const KernelSpec& spec);
int stride_count(const KernelSpec& spec);
int pointer_index(const KernelSpec& spec, Operand operand);
int stride_index(const KernelSpec& spec, Operand operand);

// Works on rows [row_begin, row_end). Pointers address row 0; strides are in elements. Any alignment unless the plan's y_alignment
// says more. y may be x and residual_out may be residual or x (same address, same stride); any other overlap is undefined.
using HostKernel = void (*)(void* const* pointers, const std::int64_t* strides, std::int64_t row_begin, std::int64_t row_end);

}  // namespace headnorm
