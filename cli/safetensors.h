// Safetensors files: which tensors a file holds and where, read without trusting the file; and what stands before a tensor that is
// written.
//
// A file is the length of its header (8 bytes, little endian), the header (JSON: a dtype, a shape and two offsets for each name)
// and the data, which the tensors fill without gaps.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/result.h"

namespace headnorm::cli {

struct SafetensorsEntry {
  std::string name, dtype;  // dtype as the file spells it
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  // bytes, from the beginning of the data
};

inline constexpr std::uint64_t kSafetensorsLengthBytes = 8;
inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;  // bytes; the limit that the format itself sets

// `length` is the first 8 bytes. Error (user): the header is longer than the file or than kMaxSafetensorsHeader.
Result<std::uint64_t> safetensors_header_bytes(std::string_view length, std::uint64_t file_bytes);

// In the order of their data. Error (user): not such a header, or offsets that do not fit the shapes or the file.
Result<std::vector<SafetensorsEntry>> parse_safetensors_header(std::string_view header, std::uint64_t data_bytes);

// The spelling of the format: F32, F16 or BF16.
const char* safetensors_dtype(Dtype dtype);

// Whether a tensor can have this name: not empty, UTF-8, and not the name of the format's own entry.
bool is_safetensors_name(const std::string& name);

// What stands before the data of a file of one tensor.
std::string safetensors_header(const std::string& name, Dtype dtype, const std::vector<std::int64_t>& shape);

}  // namespace headnorm::cli
