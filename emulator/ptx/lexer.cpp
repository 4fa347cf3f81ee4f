#include "emulator/ptx/lexer.h"

#include <fmt/format.h>

namespace headnorm::emulator::ptx {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v'; }

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  Outcome<std::vector<Token>> run() {
    while (true) {
      if (!skip_blanks()) return fail("a comment does not end");
      if (at_ >= text_.size()) break;
      const std::size_t begin = at_;
      const Token::Kind kind = scan();
      if (kind == Token::Kind::end) return fail(fmt::format("unexpected character '{}'", text_.substr(begin, 1)));
      tokens_.push_back({kind, text_.substr(begin, at_ - begin), line_});
    }
    tokens_.push_back({Token::Kind::end, text_.substr(text_.size()), line_});
    return std::move(tokens_);
  }

 private:
  Failure fail(std::string what) const { return {fmt::format("line {}: {}", line_, what)}; }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  // Past blanks and comments; false where a comment has no end.
  bool skip_blanks() {
    while (at_ < text_.size()) {
      if (is_blank(peek())) {
        line_ += peek() == '\n' ? 1 : 0;
        ++at_;
      } else if (peek() == '/' && peek(1) == '/') {
        while (at_ < text_.size() && peek() != '\n') ++at_;
      } else if (peek() == '/' && peek(1) == '*') {
        const std::size_t end = text_.find("*/", at_ + 2);
        if (end == std::string_view::npos) return false;
        for (; at_ < end + 2; ++at_) line_ += peek() == '\n' ? 1 : 0;
      } else {
        break;
      }
    }
    return true;
  }

  // Moves past one token; kind `end` where there is none.
  Token::Kind scan() {
    const char c = peek();
    if (is_digit(c)) {
      while (is_digit(peek()) || is_letter(peek()) || (peek() == '.' && is_digit(peek(1)))) ++at_;
      return Token::Kind::number;
    }
    if (is_letter(c) || (c == '.' && is_letter(peek(1)))) {
      const bool is_directive = c == '.';  // ".reg.b32" is two words
      ++at_;
      while (is_letter(peek()) || is_digit(peek()) || (peek() == '.' && !is_directive) || (peek() == ':' && peek(1) == ':'))
        at_ += peek() == ':' ? 2 : 1;
      return Token::Kind::word;
    }
    if (c == '"') {
      const std::size_t end = text_.find_first_of("\"\n", at_ + 1);
      if (end == std::string_view::npos || text_[end] == '\n') return Token::Kind::end;
      at_ = end + 1;
      return Token::Kind::string;
    }
    if (std::string_view("{}[]()<>,;:+-@!|=*").find(c) == std::string_view::npos) return Token::Kind::end;
    ++at_;
    return Token::Kind::punctuation;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

Outcome<std::vector<Token>> split_tokens(std::string_view text) { return Lexer(text).run(); }

}  // namespace headnorm::emulator::ptx
