// What a PTX text says, checked for form: registers, variables and labels are resolved, instructions are still text.
//
// Whether an instruction exists, and with which modifiers, is decided when the machine decodes a kernel (machine/decode.h).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headnorm::emulator::ptx {

enum class Type : std::uint8_t {
  u8,
  u16,
  u32,
  u64,
  s8,
  s16,
  s32,
  s64,
  b8,
  b16,
  b32,
  b64,
  b128,
  f16,
  f16x2,
  bf16,
  bf16x2,
  f32,
  f32x2,
  f64,
  pred,
};

std::optional<Type> parse_type(std::string_view text);  // without the dot
int size_bytes(Type type);                              // 0 for pred
const char* to_text(Type type);

enum class Space : std::uint8_t { generic, global, shared, local, param, constant };

struct Operand {
  enum class Kind : std::uint8_t { reg, integer, real, special, variable, address, list, pair, sink } kind = Kind::sink;
  std::string name;            // special register, or variable or label; of an address: its variable, or empty
  int reg = -1;                // number of the register; of an address: the base, or -1
  std::uint64_t value = 0;     // integer, or the bits of a real
  int real_bytes = 0;          // 4 for 0f, 8 for 0d and decimal fractions
  std::int64_t offset = 0;     // of an address or a variable
  bool is_negated = false;     // !predicate
  std::vector<Operand> items;  // of a list {a, b} or a pair a|b
  int scope = 0;               // in which a label's name stands
};

struct Instruction {
  int line = 0;
  std::string text;  // as written, blanks collapsed
  int guard = -1;    // register of the predicate
  bool is_guard_negated = false;
  std::string base;                    // "ld"
  std::vector<std::string> modifiers;  // "global", "v4", "f32"
  std::vector<Operand> operands;
  std::uint64_t used_bytes = ~std::uint64_t{0};  // of a load: bytes of which the compiler uses the value
};

struct Register {
  std::string name;
  Type type = Type::b32;
};

struct Variable {
  std::string name;
  Space space = Space::global;
  Type type = Type::b8;
  std::uint64_t align = 1, bytes = 0;
  bool is_dynamic = false;            // extern shared array without a size
  std::vector<std::uint8_t> initial;  // empty, or `bytes` long
  int line = 0;
};

struct Label {
  std::string name;
  int scope = 0;
  std::size_t at = 0;                // index of the next instruction
  std::vector<std::string> targets;  // of .branchtargets
};

struct Kernel {
  std::string name;
  int line = 0;
  std::vector<Variable> parameters;
  std::vector<Register> registers;
  std::vector<Variable> variables;  // shared and local ones of this kernel
  std::vector<Instruction> code;
  std::vector<Label> labels;
  std::vector<int> scope_parents;                                             // of each scope; -1 for the outermost
  std::array<std::uint32_t, 3> max_threads{}, required_threads{}, cluster{};  // 0: not said
  std::uint32_t max_cluster_rank = 0, min_blocks = 0, max_registers = 0;
};

struct Module {
  int version = 0;                  // 10 * major + minor
  std::string target;               // "sm_90a"
  std::vector<Variable> variables;  // global, constant and shared ones
  std::vector<Kernel> kernels;
};

}  // namespace headnorm::emulator::ptx
