// NumPy files: reading and writing of plain arrays (.npy, formats 1.0 to 3.0, little endian, C order; f4, f2, and bf16 as u2 or
// V2).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/result.h"

namespace headnorm::cli {

struct NpyHeader {
  Dtype dtype = Dtype::f32;
  std::vector<std::int64_t> shape;
  std::size_t data_offset = 0;  // bytes from the start of the file
  std::size_t data_bytes = 0;
};

struct NpyArray {
  NpyHeader header;
  std::string file;  // all of it

  const void* data() const { return file.data() + header.data_offset; }
};

// `file` is the whole file; what follows the header must be exactly the array. Errors (user): say what of the header is wrong.
Result<NpyHeader> parse_npy(std::string_view file);

// Errors also of read_file; each names the path.
Result<NpyArray> read_npy(const std::filesystem::path& path);

// What stands before the data: 64 bytes or a multiple, format 1.0. bf16 is written as '<u2'.
std::string npy_header(Dtype dtype, const std::vector<std::int64_t>& shape);

// "(64, 4096)", "(4096,)", as NumPy writes it.
std::string shape_text(const std::vector<std::int64_t>& shape);

}  // namespace headnorm::cli
