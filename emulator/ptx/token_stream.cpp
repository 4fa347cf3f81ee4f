#include "emulator/ptx/token_stream.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>

namespace headnorm::emulator::ptx {
namespace {

bool parse_hex(std::string_view text, std::uint64_t& value) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

bool parse_integer(std::string_view text, std::uint64_t& value) {
  if (text.ends_with('U')) text.remove_suffix(1);
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    base = 16;
    text.remove_prefix(2);
  } else if (text.starts_with("0b") || text.starts_with("0B")) {
    base = 2;
    text.remove_prefix(2);
  } else if (text.size() > 1 && text[0] == '0') {
    base = 8;
  }
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

bool parse_number(std::string_view text, Number& number) {
  const bool is_single = text.starts_with("0f") || text.starts_with("0F");
  if (is_single || text.starts_with("0d") || text.starts_with("0D")) {
    number.real_bytes = is_single ? 4 : 8;
    return text.size() == (is_single ? 10u : 18u) && parse_hex(text.substr(2), number.bits);
  }
  if (text.find('.') == std::string_view::npos) return parse_integer(text, number.bits);
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  number = {std::bit_cast<std::uint64_t>(value), 8};
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

}  // namespace

void TokenStream::fail(int line, std::string_view what) {
  if (failure_.empty()) failure_ = fmt::format("line {}: {}", line, what);
}

void TokenStream::expect(std::string_view text) {
  if (!take(text)) fail(fmt::format("expected '{}' before '{}'", text, peek().text));
}

std::string TokenStream::expect_word() {
  if (peek().kind == Token::Kind::word) return std::string(next().text);
  fail(fmt::format("expected a name before '{}'", peek().text));
  return {};
}

Number TokenStream::expect_number() {
  const bool is_negative = take("-");
  Number number;
  if (peek().kind != Token::Kind::number || !parse_number(peek().text, number)) {
    fail(fmt::format("expected a number before '{}'", peek().text));
    return {};
  }
  next();
  if (!is_negative) return number;
  if (number.real_bytes == 0) {
    number.bits = 0 - number.bits;
  } else {
    number.bits ^= std::uint64_t{1} << (8 * number.real_bytes - 1);
  }
  return number;
}

std::uint64_t TokenStream::expect_count() {
  const int line = peek().line;
  const Number number = expect_number();
  if (number.real_bytes == 0 && number.bits <= 0xffffffffu) return number.bits;
  fail(line, "expected a number from 0 to 4294967295");
  return 0;
}

void TokenStream::skip_past(std::string_view text) {
  while (!at_end() && !at(text)) next();
  expect(text);
}

}  // namespace headnorm::emulator::ptx
