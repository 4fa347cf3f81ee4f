#include "cli/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "cli/report.h"
#include "core/counted.h"

namespace headnorm::cli {
namespace {

constexpr std::string_view kMetadata = "__metadata__";
constexpr std::size_t kMostDimensions = 32;
constexpr std::size_t kAlignment = 8;

// Sizes of the format's dtypes. Elements of another dtype are not counted: the format grows.
constexpr std::pair<std::string_view, std::uint64_t> kBits[] = {
    {"BOOL", 8}, {"U8", 8},   {"I8", 8},    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"U16", 16},
    {"I16", 16}, {"F16", 16}, {"BF16", 16}, {"U32", 32},    {"I32", 32},    {"F32", 32},    {"U64", 64},
    {"I64", 64}, {"F64", 64}, {"C64", 64},  {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4}};

Error malformed(std::string what) {
  return user_error("not a safetensors file that headnorm reads: " + std::move(what),
                    "write the file again with the safetensors library");
}

// Takes the three levels that a header has, and stops at anything else: no text makes it nest, loop or keep what is not a tensor.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<SafetensorsEntry> entries;
  const std::string& reason() const { return reason_; }

  bool start_object(std::size_t) override {
    if (place_ == Place::outside) return enter(Place::tensors);
    if (place_ != Place::tensors) return stop("an object where none belongs");
    if (name_ == kMetadata) return enter(Place::metadata);
    entry_ = {};
    entry_.name = name_;
    offsets_.clear();
    seen_ = {};
    return enter(Place::tensor);
  }

  bool end_object() override {
    if (place_ != Place::tensor) return enter(place_ == Place::metadata ? Place::tensors : Place::outside);
    if (seen_.size() != 3 || offsets_.size() != 2)
      return stop(fmt::format("tensor '{}' lacks a dtype, a shape or two data_offsets", printable(name_)));
    entry_.begin = offsets_[0];
    entry_.end = offsets_[1];
    entries.push_back(std::move(entry_));
    return enter(Place::tensors);
  }

  bool key(std::string& key) override {
    if (place_ == Place::metadata) return true;
    if (place_ == Place::tensors) {
      if (!names_.insert(key).second) return stop(fmt::format("name '{}' is given twice", printable(key)));
      name_ = key;
      return true;
    }
    if (key != "dtype" && key != "shape" && key != "data_offsets")
      return stop(fmt::format("tensor '{}' has a key '{}'", printable(name_), printable(key)));
    if (!seen_.insert(key).second) return stop(fmt::format("tensor '{}' has two keys '{}'", printable(name_), key));
    field_ = key;
    return true;
  }

  bool string(std::string& value) override {
    if (place_ == Place::metadata) return true;
    if (place_ != Place::tensor || field_ != "dtype") return stop("a text where none belongs");
    entry_.dtype = value;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::tensor || field_ == "dtype") return stop("an array where none belongs");
    return enter(Place::numbers);
  }
  bool end_array() override { return enter(Place::tensor); }

  bool number_unsigned(std::uint64_t value) override {
    if (place_ != Place::numbers) return stop("a number where none belongs");
    if (value > std::numeric_limits<std::int64_t>::max()) return stop(fmt::format("number {} is past any file", value));
    if (field_ == "data_offsets") {
      offsets_.push_back(value);
      return offsets_.size() <= 2 || stop(fmt::format("tensor '{}' has more than two data_offsets", printable(name_)));
    }
    entry_.shape.push_back(static_cast<std::int64_t>(value));
    return entry_.shape.size() <= kMostDimensions ||
           stop(fmt::format("tensor '{}' has more than {} dimensions", printable(name_), kMostDimensions));
  }

  bool number_integer(std::int64_t value) override { return stop(fmt::format("number {} is no size", value)); }
  bool number_float(double, const std::string& text) override { return stop(fmt::format("number {} is no size", printable(text))); }
  bool null() override { return stop("null where a value belongs"); }
  bool boolean(bool) override { return stop("true or false where a value belongs"); }
  bool binary(nlohmann::json::binary_t&) override { return stop("a binary value"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return stop(fmt::format("the header is not JSON at byte {}", position));
  }

 private:
  enum class Place { outside, tensors, metadata, tensor, numbers };

  bool enter(Place place) {
    place_ = place;
    return true;
  }
  bool stop(std::string reason) {
    reason_ = std::move(reason);
    return false;
  }

  Place place_ = Place::outside;
  std::set<std::string> names_, seen_;  // of the file; keys of the tensor that is read
  std::string name_, field_;
  SafetensorsEntry entry_;
  std::vector<std::uint64_t> offsets_;
  std::string reason_;
};

// Bytes that a tensor takes, or none past 2^64.
std::optional<std::uint64_t> byte_count(const std::vector<std::int64_t>& shape, std::uint64_t bits) {
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  std::uint64_t total = bits;
  for (const std::int64_t size : shape) {
    if (__builtin_mul_overflow(total, static_cast<std::uint64_t>(size), &total)) return std::nullopt;
  }
  return total / 8 + (total % 8 == 0 ? 0 : 1);
}

Result<void> check_size(const SafetensorsEntry& entry) {
  if (entry.begin > entry.end)
    return malformed(
        fmt::format("tensor '{}' ends at {}, before its beginning at {}", printable(entry.name), entry.end, entry.begin));
  const auto* known = std::ranges::find(kBits, entry.dtype, &std::pair<std::string_view, std::uint64_t>::first);
  if (known == std::end(kBits)) return {};
  const std::optional<std::uint64_t> wanted = byte_count(entry.shape, known->second);
  if (wanted && *wanted == entry.end - entry.begin) return {};
  return malformed(fmt::format("tensor '{}' has {} of data, which is not what its shape of {} takes", printable(entry.name),
                               counted(entry.end - entry.begin, "byte"), entry.dtype));
}

}  // namespace

Result<std::uint64_t> safetensors_header_bytes(std::string_view length, std::uint64_t file_bytes) {
  if (length.size() < kSafetensorsLengthBytes)
    return malformed(fmt::format("a file of {} is too short", counted(length.size(), "byte")));
  std::uint64_t bytes = 0;
  for (std::size_t i = kSafetensorsLengthBytes; i-- > 0;) bytes = bytes << 8 | static_cast<unsigned char>(length[i]);
  if (bytes > file_bytes - kSafetensorsLengthBytes)
    return malformed(fmt::format("a header of {} is longer than the file", counted(bytes, "byte")));
  if (bytes > kMaxSafetensorsHeader)
    return malformed(fmt::format("a header of {} is longer than {}", counted(bytes, "byte"), kMaxSafetensorsHeader));
  return bytes;
}

Result<std::vector<SafetensorsEntry>> parse_safetensors_header(std::string_view header, std::uint64_t data_bytes) {
  // A NUL would be taken for the end of the text.
  if (!header.starts_with('{') || header.find('\0') != std::string_view::npos)
    return malformed("the header is not a JSON object alone");
  HeaderReader reader;
  if (!nlohmann::json::sax_parse(header, &reader)) return malformed(reader.reason());
  std::ranges::sort(reader.entries, {}, [](const SafetensorsEntry& entry) { return std::pair(entry.begin, entry.end); });
  std::uint64_t filled = 0;
  for (const SafetensorsEntry& entry : reader.entries) {
    HEADNORM_CHECK(check_size(entry));
    if (entry.begin != filled)
      return malformed(fmt::format("the data of tensor '{}' begins at {}, and that before it ends at {}", printable(entry.name),
                                   entry.begin, filled));
    filled = entry.end;
  }
  if (filled != data_bytes)
    return malformed(fmt::format("the tensors take {} of data, and the file has {}", counted(filled, "byte"), data_bytes));
  return std::move(reader.entries);
}

const char* safetensors_dtype(Dtype dtype) { return dtype == Dtype::f32 ? "F32" : dtype == Dtype::f16 ? "F16" : "BF16"; }

bool is_safetensors_name(const std::string& name) {
  if (name.empty() || name == kMetadata) return false;
  const nlohmann::json text = name;
  return nlohmann::json::parse(text.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)) == text;
}

std::string safetensors_header(const std::string& name, Dtype dtype, const std::vector<std::int64_t>& shape) {
  const std::uint64_t bytes = byte_count(shape, static_cast<std::uint64_t>(size_bytes(dtype)) * 8).value_or(0);
  const nlohmann::ordered_json header = {
      {name, {{"dtype", safetensors_dtype(dtype)}, {"shape", shape}, {"data_offsets", {std::uint64_t{0}, bytes}}}}};
  std::string text = header.dump();
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  std::string file;
  for (std::size_t i = 0; i < kSafetensorsLengthBytes; ++i) file += static_cast<char>(text.size() >> 8 * i & 0xff);
  return file + text;
}

}  // namespace headnorm::cli
