// counted: a number with the noun that it counts, as people read it: "1 record", "2 records".
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <string>
#include <string_view>

namespace headnorm {

// Of a noun whose plural ends in s.
template <std::integral Count>
std::string counted(Count count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace headnorm
