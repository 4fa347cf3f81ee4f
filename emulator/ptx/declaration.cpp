#include "emulator/ptx/declaration.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace headnorm::emulator::ptx {
namespace {

constexpr std::uint64_t kMaxVariableBytes = std::uint64_t{1} << 32;

void parse_align(TokenStream& tokens, Variable& variable) {
  if (!tokens.take(".align")) return;
  variable.align = tokens.expect_count();
  if (!std::has_single_bit(variable.align)) tokens.fail(fmt::format(".align {} is not a power of 2", variable.align));
}

void append_value(TokenStream& tokens, const Variable& variable, std::vector<std::uint8_t>& bytes) {
  const int line = tokens.peek().line;
  if (tokens.peek().kind == Token::Kind::word) return tokens.fail("an address as initial value is not supported");
  Number number = tokens.expect_number();
  const auto size = static_cast<std::size_t>(size_bytes(variable.type));
  if (number.real_bytes == 8 && size == 4)
    number.bits = std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(number.bits)));
  if (size > sizeof number.bits) return tokens.fail(line, "initial values of this type are not supported");
  const std::size_t at = bytes.size();
  bytes.resize(at + size);
  std::memcpy(bytes.data() + at, &number.bits, size);
}

void parse_initial(TokenStream& tokens, const Variable& variable, std::vector<std::uint8_t>& bytes) {
  if (!tokens.take("{")) return append_value(tokens, variable, bytes);
  while (!tokens.failed() && !tokens.take("}")) {
    parse_initial(tokens, variable, bytes);
    if (!tokens.at("}")) tokens.expect(",");
  }
}

// "[4][2]" behind a name; an empty extent comes first, if at all.
void parse_array(TokenStream& tokens, Variable& variable) {
  variable.bytes = static_cast<std::uint64_t>(size_bytes(variable.type));
  while (tokens.take("[")) {
    if (tokens.take("]")) {
      variable.is_dynamic = true;
      continue;
    }
    const std::uint64_t count = tokens.expect_count();
    if (count != 0 && variable.bytes > kMaxVariableBytes / count) tokens.fail(fmt::format("{} is too large", variable.name));
    variable.bytes *= count;
    tokens.expect("]");
  }
}

void parse_declared(TokenStream& tokens, Variable& variable) {
  variable.line = tokens.peek().line;
  variable.name = tokens.expect_word();
  parse_array(tokens, variable);
  if (tokens.take("=")) {
    parse_initial(tokens, variable, variable.initial);
    if (variable.is_dynamic) variable.bytes = variable.initial.size();
    variable.is_dynamic = false;
    if (variable.initial.size() > variable.bytes)
      tokens.fail(variable.line, fmt::format("{} has too many initial values", variable.name));
    variable.initial.resize(variable.bytes);
  }
  if (!variable.is_dynamic) return;
  variable.bytes = 0;
  if (variable.space != Space::shared) tokens.fail(variable.line, fmt::format("{} has no size", variable.name));
}

}  // namespace

std::optional<Space> parse_space(std::string_view directive) {
  if (directive == ".global") return Space::global;
  if (directive == ".shared") return Space::shared;
  if (directive == ".local") return Space::local;
  if (directive == ".const") return Space::constant;
  if (directive == ".param") return Space::param;
  return std::nullopt;
}

Type expect_type(TokenStream& tokens) {
  const int line = tokens.peek().line;
  const std::string word = tokens.expect_word();
  const std::optional<Type> type = word.starts_with('.') ? parse_type(std::string_view(word).substr(1)) : std::nullopt;
  if (!type) tokens.fail(line, fmt::format("'{}' is not a type", word));
  return type.value_or(Type::b32);
}

std::vector<Variable> parse_variables(TokenStream& tokens) {
  Variable pattern;
  pattern.space = *parse_space(tokens.next().text);
  parse_align(tokens, pattern);
  std::uint64_t vector = 1;
  if (tokens.take(".v2")) vector = 2;
  if (tokens.take(".v4")) vector = 4;
  pattern.type = expect_type(tokens);
  const auto natural = static_cast<std::uint64_t>(size_bytes(pattern.type)) * vector;
  pattern.align = std::max({pattern.align, natural, std::uint64_t{1}});
  std::vector<Variable> variables;
  do {
    Variable variable = pattern;
    parse_declared(tokens, variable);
    variable.bytes *= vector;
    if (!variable.initial.empty()) variable.initial.resize(variable.bytes);
    variables.push_back(std::move(variable));
  } while (!tokens.failed() && tokens.take(","));
  tokens.expect(";");
  return variables;
}

Variable parse_parameter(TokenStream& tokens) {
  Variable parameter;
  parameter.space = Space::param;
  tokens.expect(".param");
  parse_align(tokens, parameter);
  parameter.type = expect_type(tokens);
  parameter.align = std::max(parameter.align, static_cast<std::uint64_t>(size_bytes(parameter.type)));
  if (tokens.take(".ptr")) {
    if (parse_space(tokens.peek().text)) tokens.next();
    Variable pointee;
    parse_align(tokens, pointee);  // of what it points to: the kernel's accesses are checked one by one
  }
  parameter.line = tokens.peek().line;
  parameter.name = tokens.expect_word();
  parse_array(tokens, parameter);
  return parameter;
}

}  // namespace headnorm::emulator::ptx
