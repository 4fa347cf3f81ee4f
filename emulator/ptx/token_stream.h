// A position in the tokens of a PTX text, with the small questions that the parser asks; the first failure is kept.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/ptx/lexer.h"

namespace headnorm::emulator::ptx {

struct Number {
  std::uint64_t bits = 0;
  int real_bytes = 0;  // 4 or 8 where it is a floating-point number
};

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& peek() const { return tokens_[at_]; }
  const Token& peek_second() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  bool at_end() const { return peek().kind == Token::Kind::end; }
  bool at(std::string_view text) const { return peek().kind != Token::Kind::string && peek().text == text; }
  const Token& next() { return at_end() ? tokens_[at_] : tokens_[at_++]; }
  bool take(std::string_view text) { return at(text) && (next(), true); }

  // These four record a failure where the text is not so, and give something harmless.
  void expect(std::string_view text);
  std::string expect_word();
  Number expect_number();        // with its sign
  std::uint64_t expect_count();  // a number from 0 to 2^32 - 1

  void skip_past(std::string_view text);  // the next token that is so

  bool failed() const { return !failure_.empty(); }
  const std::string& failure() const { return failure_; }
  void fail(int line, std::string_view what);
  void fail(std::string_view what) { fail(peek().line, what); }

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  std::string failure_;
};

}  // namespace headnorm::emulator::ptx
