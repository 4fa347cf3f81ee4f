#include "core/text.h"

#include <charconv>
#include <cmath>
#include <set>

namespace headnorm::text {
namespace {

std::string decimal_remedy(std::string_view kind, std::string_view example) {
  return fmt::format("give a decimal {}{}{}", kind, example.empty() ? "" : ", e.g. ", example);
}

}  // namespace

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

Result<std::int64_t> parse_integer(std::string_view text, std::string_view what, std::string_view example) {
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status == std::errc::result_out_of_range)
    return user_error(fmt::format("{} '{}' does not fit in 64 bits", what, text),
                      text.starts_with('-') ? "give a larger integer" : "give a smaller integer");
  if (status != std::errc() || end != text.data() + text.size())
    return user_error(fmt::format("{} '{}' is not an integer", what, text), decimal_remedy("integer", example));
  return value;
}

Result<double> parse_number(std::string_view text, std::string_view what, std::string_view example) {
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || status == std::errc::invalid_argument)
    return user_error(fmt::format("{} '{}' is not a number", what, text),
                      decimal_remedy("number", example) + ": no blanks, no '+' before it, a point before its fraction");
  if (status == std::errc::result_out_of_range)
    return user_error(fmt::format("{} '{}' is outside the numbers of 64 bits", what, text), decimal_remedy("number", example));
  if (!std::isfinite(value))
    return user_error(fmt::format("{} '{}' is not finite", what, text), decimal_remedy("finite number", example));
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
