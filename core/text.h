// Helpers for canonical texts: "key=value,key=value" lists, enum names, numbers.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace headnorm::text {

std::vector<std::string_view> split(std::string_view text, char separator);

// `what` names the value in messages, `example` a right one in remedies.
Result<std::int64_t> parse_integer(std::string_view text, std::string_view what, std::string_view example = "");
Result<double> parse_number(std::string_view text, std::string_view what, std::string_view example = "");

// Calls `set(key, value)` for every "key=value" of a comma separated list; refuses a missing '=', an empty key and a key given
// twice. `what` names the kind of text in messages ("spec", "schedule").
Result<void> for_each_field(std::string_view text, std::string_view what,
                            const std::function<Result<void>(std::string_view key, std::string_view value)>& set);

template <class Enum, std::size_t N>
Result<Enum> parse_enum(std::string_view text, std::string_view what, const std::array<Enum, N>& values) {
  std::string names;
  for (Enum value : values) {
    if (text == to_text(value)) return value;
    names += (names.empty() ? "" : ", ") + std::string(to_text(value));
  }
  return user_error(fmt::format("'{}' is not a {}", text, what), "use one of: " + names);
}

}  // namespace headnorm::text
