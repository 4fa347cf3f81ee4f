#include "cli/npy.h"

#include <fmt/format.h>

#include <optional>

#include "cli/files.h"
#include "cli/report.h"
#include "core/counted.h"
#include "core/text.h"

namespace headnorm::cli {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kAlignment = 64;
constexpr int kMostDimensions = 32;  // NumPy's own limit

Error malformed(std::string what) {
  return user_error("not a NumPy file that headnorm reads: " + std::move(what),
                    "write the array with numpy.save, in C order, as <f4, <f2 or <u2 (bf16)");
}

std::uint32_t little_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

// The header is a Python dictionary with three known keys; this reads just that.
class HeaderText {
 public:
  explicit HeaderText(std::string_view text) : rest_(text) {}

  Result<void> read() {
    if (!take('{')) return malformed("the header does not begin with '{'");
    while (!take('}')) {
      HEADNORM_TRY(const std::string key, string());
      if (!take(':')) return malformed(fmt::format("no ':' after the header's key '{}'", printable(key)));
      HEADNORM_CHECK(value(key));
      if (!take(',') && peek() != '}') return malformed(fmt::format("no ',' after the header's value of '{}'", printable(key)));
    }
    skip_blanks();
    if (!rest_.empty()) return malformed("text after the header's '}'");
    if (!descr) return malformed("the header has no 'descr'");
    if (!fortran_order) return malformed("the header has no 'fortran_order'");
    if (!shape) return malformed("the header has no 'shape'");
    return {};
  }

  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::int64_t>> shape;

 private:
  void skip_blanks() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n')) rest_.remove_prefix(1);
  }
  char peek() {
    skip_blanks();
    return rest_.empty() ? '\0' : rest_.front();
  }
  bool take(char wanted) {
    if (rest_.empty() || peek() != wanted || rest_.empty()) return false;
    rest_.remove_prefix(1);
    return true;
  }

  Result<std::string> string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return malformed("a quoted text is missing in the header");
    rest_.remove_prefix(1);
    const std::size_t end = rest_.find(quote);
    if (end == std::string_view::npos) return malformed("a quoted text in the header has no end");
    std::string text(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return text;
  }

  Result<void> value(const std::string& key) {
    if (key == "descr" && !descr) {
      if (peek() == '[') return malformed("the array has fields (a structured dtype)");
      HEADNORM_TRY(descr, string());
      return {};
    }
    if (key == "fortran_order" && !fortran_order) return boolean();
    if (key == "shape" && !shape) return tuple();
    return malformed(fmt::format("the header's key '{}' is not known or stands twice", printable(key)));
  }

  Result<void> boolean() {
    skip_blanks();
    for (const bool truth : {true, false}) {
      const std::string_view name = truth ? "True" : "False";
      if (!rest_.starts_with(name)) continue;
      rest_.remove_prefix(name.size());
      fortran_order = truth;
      return {};
    }
    return malformed("'fortran_order' is neither True nor False");
  }

  Result<void> tuple() {
    if (!take('(')) return malformed("'shape' is not a tuple");
    std::vector<std::int64_t> sizes;
    while (!take(')')) {
      skip_blanks();
      const std::size_t end = rest_.find_first_not_of("0123456789");
      const Result<std::int64_t> size = text::parse_integer(rest_.substr(0, end), "size");
      if (!size.ok()) return malformed("'shape' holds something that is no size");
      if (sizes.size() == kMostDimensions) return malformed(fmt::format("'shape' has more than {} dimensions", kMostDimensions));
      sizes.push_back(*size);
      rest_.remove_prefix(std::min(end, rest_.size()));
      if (!take(',') && peek() != ')') return malformed("'shape' has no ')'");
    }
    shape = std::move(sizes);
    return {};
  }

  std::string_view rest_;
};

Result<Dtype> parse_descr(const std::string& descr) {
  if (descr == "<f4") return Dtype::f32;
  if (descr == "<f2") return Dtype::f16;
  if (descr == "<u2" || descr == "|V2" || descr == "<V2") return Dtype::bf16;
  if (descr.starts_with('>')) return malformed(fmt::format("dtype '{}' is big endian", printable(descr)));
  return malformed(fmt::format("dtype '{}' is not one of <f4, <f2, <u2 and |V2", printable(descr)));
}

// Bytes of the array, or none past 2^62.
std::optional<std::uint64_t> byte_count(const std::vector<std::int64_t>& shape, Dtype dtype) {
  std::int64_t bytes = size_bytes(dtype);
  for (std::int64_t size : shape) {
    if (size == 0) return 0;
  }
  for (std::int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  }
  return static_cast<std::uint64_t>(bytes);
}

// The text of the header and where the data begins.
Result<std::string_view> header_text(std::string_view file, std::size_t& data_offset) {
  if (file.size() < kMagic.size() + 4 || !file.starts_with(kMagic)) return malformed("the magic bytes are not there");
  const int major = static_cast<unsigned char>(file[6]), minor = static_cast<unsigned char>(file[7]);
  if (major < 1 || major > 3 || minor != 0) return malformed(fmt::format("format version {}.{}", major, minor));
  const std::size_t length_bytes = major == 1 ? 2 : 4, begin = kMagic.size() + 2 + length_bytes;
  if (file.size() < begin) return malformed("the file ends within the header");
  const std::size_t length = little_endian(file.substr(begin - length_bytes, length_bytes));
  if (length > file.size() - begin)
    return malformed(fmt::format("a header of {} is longer than the file", counted(length, "byte")));
  data_offset = begin + length;
  return file.substr(begin, length);
}

}  // namespace

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (std::int64_t size : shape) text += fmt::format("{}{}", text.empty() ? "" : ", ", size);
  return shape.size() == 1 ? fmt::format("({},)", text) : fmt::format("({})", text);
}

Result<NpyHeader> parse_npy(std::string_view file) {
  NpyHeader header;
  HEADNORM_TRY(const std::string_view text, header_text(file, header.data_offset));
  HeaderText fields(text);
  HEADNORM_CHECK(fields.read());
  HEADNORM_TRY(header.dtype, parse_descr(*fields.descr));
  if (*fields.fortran_order && fields.shape->size() > 1) return malformed("the array is in Fortran order");
  header.shape = std::move(*fields.shape);
  const std::optional<std::uint64_t> wanted = byte_count(header.shape, header.dtype);
  header.data_bytes = file.size() - header.data_offset;
  if (!wanted) return malformed(fmt::format("shape {} is larger than any memory", shape_text(header.shape)));
  if (*wanted != header.data_bytes)
    return malformed(fmt::format("{} of data, where shape {} of {} takes {}", counted(header.data_bytes, "byte"),
                                 shape_text(header.shape), to_text(header.dtype), *wanted));
  return header;
}

Result<NpyArray> read_npy(const std::filesystem::path& path) {
  NpyArray array;
  HEADNORM_TRY(array.file, read_file(path));
  Result<NpyHeader> header = parse_npy(array.file);
  if (!header.ok()) return user_error(fmt::format("'{}': {}", path.string(), header.error().message), header.error().remedy);
  array.header = std::move(*header);
  return array;
}

std::string npy_header(Dtype dtype, const std::vector<std::int64_t>& shape) {
  const char* descr = dtype == Dtype::f32 ? "<f4" : dtype == Dtype::f16 ? "<f2" : "<u2";
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr, shape_text(shape));
  const std::size_t before = kMagic.size() + 4;
  text.append(kAlignment - 1 - (before + text.size()) % kAlignment, ' ');
  text += '\n';
  std::string header(kMagic);
  header += {'\x01', '\x00', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return header + text;
}

}  // namespace headnorm::cli
