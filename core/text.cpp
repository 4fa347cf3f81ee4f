#include "core/text.h"

#include <charconv>
#include <cmath>
#include <set>

namespace headnorm::text {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

Result<std::int64_t> parse_integer(std::string_view text, std::string_view what) {
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status == std::errc::result_out_of_range)
    return user_error(fmt::format("{} '{}' does not fit in 64 bits", what, text), "give a smaller integer");
  if (status != std::errc() || end != text.data() + text.size())
    return user_error(fmt::format("{} '{}' is not an integer", what, text), "give a decimal integer, e.g. 4096");
  return value;
}

Result<double> parse_number(std::string_view text, std::string_view what) {
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    return user_error(fmt::format("{} '{}' is not a finite number", what, text), "give a decimal number, e.g. 1e-6");
  return value;
}

Result<void> for_each_field(std::string_view text, std::string_view what,
                            const std::function<Result<void>(std::string_view, std::string_view)>& set) {
  std::set<std::string_view> seen;
  for (std::string_view field : split(text, ',')) {
    const std::size_t equals = field.find('=');
    if (equals == std::string_view::npos || equals == 0)
      return user_error(fmt::format("'{}' in the {} text is not of the form key=value", field, what),
                        fmt::format("write the {} as key=value,key=value", what));
    const std::string_view key = field.substr(0, equals);
    if (!seen.insert(key).second)
      return user_error(fmt::format("'{}' is given twice in the {} text", key, what), "give each key once");
    HEADNORM_CHECK(set(key, field.substr(equals + 1)));
  }
  return {};
}

}  // namespace headnorm::text
