// Sealed JSON: how the database writes its JSON files, and a strict reader of them whose memory is bounded.
//
// A file holds one object with sorted keys. Its field "sha256" is the digest of the rest, written compactly, so that any change of
// the content is found; a change of white space alone is none. Errors are user errors that say what is wrong with the text.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

#include "core/result.h"

namespace headnorm::sealed_json {

using Json = nlohmann::json;

inline constexpr std::size_t kMaxBytes = std::size_t{1} << 20;  // of a file
inline constexpr int kMaxDepth = 8;

// White space between the fields, which the seal does not cover.
enum class Layout : std::uint8_t {
  indented,  // for people
  compact,   // for long lists
};

// Adds the seal alone, for a writer with a layout of its own.
void seal(Json& object);

// The object with its seal, with a final newline. Bytes that are not UTF-8 are replaced.
std::string write(Json object, Layout layout = Layout::indented);

// A JSON object. Refuses: more than `max_bytes`, deeper nesting than kMaxDepth, a key given twice, NUL characters, what is not JSON
// or not an object.
Result<Json> parse_bounded(std::string_view text, std::size_t max_bytes);

// The object without its seal. Refuses what parse_bounded does, and a missing or wrong seal.
Result<Json> read(std::string_view text, std::size_t max_bytes = kMaxBytes);

// Fields of one object by name; each must be read once, and finish() refuses those that were not. `object` must outlive the reader.
class Reader {
 public:
  Reader(const Json& object, std::string what) : object_(object), what_(std::move(what)) {}

  Result<std::string> text(const char* name);
  Result<std::string> hex(const char* name, std::size_t digits);  // lower-case hexadecimal digits
  Result<std::int64_t> integer(const char* name, std::int64_t lowest, std::int64_t highest);
  Result<std::uint64_t> unsigned_integer(const char* name);
  Result<double> number(const char* name);         // finite, at least 0
  Result<const Json*> object(const char* name);    // never null
  Result<const Json*> array(const char* name);     // never null
  Result<const Json*> optional(const char* name);  // null if the field is null

  bool has(const char* name) const { return object_.contains(name); }

  Result<void> finish() const;

 private:
  Result<const Json*> field(const char* name);
  Error wrong(const char* name, const char* rule) const;

  const Json& object_;
  std::string what_;
  std::set<std::string> read_;
};

// Whether `text` is `digits` lower-case hexadecimal digits, and so is safe as a part of a file name.
bool is_hex(std::string_view text, std::size_t digits);

}  // namespace headnorm::sealed_json
