#include "emulator/ptx/module.h"

#include <utility>

namespace headnorm::emulator::ptx {
namespace {

struct TypeRow {
  const char* name;
  Type type;
  int bytes;
};

constexpr TypeRow kTypes[] = {
    {"u8", Type::u8, 1},         {"u16", Type::u16, 2}, {"u32", Type::u32, 4},     {"u64", Type::u64, 8},
    {"s8", Type::s8, 1},         {"s16", Type::s16, 2}, {"s32", Type::s32, 4},     {"s64", Type::s64, 8},
    {"b8", Type::b8, 1},         {"b16", Type::b16, 2}, {"b32", Type::b32, 4},     {"b64", Type::b64, 8},
    {"b128", Type::b128, 16},    {"f16", Type::f16, 2}, {"f16x2", Type::f16x2, 4}, {"bf16", Type::bf16, 2},
    {"bf16x2", Type::bf16x2, 4}, {"f32", Type::f32, 4}, {"f32x2", Type::f32x2, 8}, {"f64", Type::f64, 8},
    {"pred", Type::pred, 0},
};

}  // namespace

std::optional<Type> parse_type(std::string_view text) {
  for (const TypeRow& row : kTypes) {
    if (text == row.name) return row.type;
  }
  return std::nullopt;
}

int size_bytes(Type type) { return kTypes[static_cast<std::size_t>(type)].bytes; }
const char* to_text(Type type) { return kTypes[static_cast<std::size_t>(type)].name; }

}  // namespace headnorm::emulator::ptx
