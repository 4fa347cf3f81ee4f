// Splits PTX text into tokens. A token is a view into the text, which must outlive it.
//
// Words keep their dots ("ld.global.v4.b32", "%tid.x", ".reg") and double colons ("shared::cta"); comments and blanks are dropped.
#pragma once

#include <string_view>
#include <vector>

#include "emulator/outcome.h"

namespace headnorm::emulator::ptx {

struct Token {
  enum class Kind : unsigned char { word, number, string, punctuation, end } kind = Kind::end;
  std::string_view text;
  int line = 0;
};

// Ends with a token of kind `end`. Failure: a character that PTX does not have, or an unfinished string or comment.
Outcome<std::vector<Token>> split_tokens(std::string_view text);

}  // namespace headnorm::emulator::ptx
