#include "runtime/database/sealed_json.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/digest.h"

namespace headnorm::sealed_json {
namespace {

constexpr const char* kSeal = "sha256";
constexpr const char* kRemedy = "delete the file; it is made again by tuning or compiling";

Error damaged(std::string message) { return user_error(std::move(message), kRemedy); }

// Goes through a text without building anything from it and stops at the first thing that the database never writes.
class LimitChecker final : public nlohmann::json_sax<Json> {
 public:
  const std::string& reason() const { return reason_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(std::int64_t) override { return true; }
  bool number_unsigned(std::uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string& value) override { return check_text(value); }
  bool binary(Json::binary_t&) override { return stop("binary value"); }
  bool start_array(std::size_t) override { return open(); }
  bool end_array() override { return close(); }
  bool start_object(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool key(std::string& value) override {
    if (!keys_.back().insert(value).second) return stop(fmt::format("key '{}' is given twice", value));
    return check_text(value);
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return stop(fmt::format("not JSON at byte {}", position));
  }

 private:
  bool open() {
    if (keys_.size() == kMaxDepth) return stop(fmt::format("nested deeper than {} levels", kMaxDepth));
    keys_.emplace_back();
    return true;
  }
  bool close() {
    keys_.pop_back();
    return true;
  }
  bool check_text(const std::string& value) {
    return value.find('\0') == std::string::npos || stop("a string with a NUL character");
  }
  bool stop(std::string reason) {
    reason_ = std::move(reason);
    return false;
  }

  std::vector<std::set<std::string>> keys_;  // of the objects that are open
  std::string reason_;
};

std::string compact(const Json& object) { return object.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

void seal(Json& object) { object[kSeal] = sha256_hex(compact(object)); }

std::string write(Json object, Layout layout) {
  seal(object);
  return object.dump(layout == Layout::indented ? 2 : -1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Json> parse_bounded(std::string_view text, std::size_t max_bytes) {
  if (text.size() > max_bytes) return damaged(fmt::format("{} bytes, more than {}", text.size(), max_bytes));
  if (text.find('\0') != std::string_view::npos) return damaged("a NUL character");  // the parser would take it for the end
  LimitChecker checker;
  if (!Json::sax_parse(text, &checker)) return damaged(checker.reason());
  Json object = Json::parse(text, nullptr, false);
  if (!object.is_object()) return damaged("not a JSON object");
  return object;
}

Result<Json> read(std::string_view text, std::size_t max_bytes) {
  HEADNORM_TRY(Json object, parse_bounded(text, max_bytes));
  const auto seal = object.find(kSeal);
  if (seal == object.end() || !seal->is_string()) return damaged("no sha256 of the content");
  const std::string expected = seal->get<std::string>();
  object.erase(seal);
  if (sha256_hex(compact(object)) != expected) return damaged("the content does not fit its sha256");
  return object;
}

Error Reader::wrong(const char* name, const char* rule) const {
  return damaged(fmt::format("field '{}' of the {} {}", name, what_, rule));
}

Result<const Json*> Reader::field(const char* name) {
  const auto found = object_.find(name);
  if (found == object_.end()) return wrong(name, "is missing");
  read_.insert(name);
  return &*found;
}

Result<std::string> Reader::text(const char* name) {
  HEADNORM_TRY(const Json* value, field(name));
  if (!value->is_string()) return wrong(name, "is not a string");
  return value->get<std::string>();
}

Result<std::string> Reader::hex(const char* name, std::size_t digits) {
  HEADNORM_TRY(std::string value, text(name));
  if (!is_hex(value, digits)) return wrong(name, fmt::format("is not {} hexadecimal digits", digits).c_str());
  return value;
}

Result<std::int64_t> Reader::integer(const char* name, std::int64_t lowest, std::int64_t highest) {
  HEADNORM_TRY(const Json* value, field(name));
  if (!value->is_number_integer()) return wrong(name, "is not an integer");
  const bool fits =
      !value->is_number_unsigned() || value->get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  const std::int64_t integer = fits ? value->get<std::int64_t>() : 0;
  if (!fits || integer < lowest || integer > highest)
    return wrong(name, fmt::format("is outside {} to {}", lowest, highest).c_str());
  return integer;
}

Result<std::uint64_t> Reader::unsigned_integer(const char* name) {
  HEADNORM_TRY(const Json* value, field(name));
  if (!value->is_number_unsigned()) return wrong(name, "is not an integer of at least 0");
  return value->get<std::uint64_t>();
}

Result<double> Reader::number(const char* name) {
  HEADNORM_TRY(const Json* value, field(name));
  if (!value->is_number()) return wrong(name, "is not a number");
  const double number = value->get<double>();
  if (!std::isfinite(number) || number < 0) return wrong(name, "is not a finite number of at least 0");
  return number;
}

Result<const Json*> Reader::object(const char* name) {
  HEADNORM_TRY(const Json* value, field(name));
  if (!value->is_object()) return wrong(name, "is not an object");
  return value;
}

Result<const Json*> Reader::array(const char* name) {
  HEADNORM_TRY(const Json* value, field(name));
  if (!value->is_array()) return wrong(name, "is not a list");
  return value;
}

Result<const Json*> Reader::optional(const char* name) {
  HEADNORM_TRY(const Json* value, field(name));
  if (value->is_null()) return static_cast<const Json*>(nullptr);
  return object(name);
}

Result<void> Reader::finish() const {
  for (const auto& item : object_.items()) {
    if (read_.count(item.key()) == 0) return wrong(item.key().c_str(), "is unknown");
  }
  return {};
}

bool is_hex(std::string_view text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace headnorm::sealed_json
