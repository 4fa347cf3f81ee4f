// Tensor files: an array of a kernel as a file holds it, in a .npy file of its own or by name in a .safetensors file.
//
// "FILE.safetensors:NAME" is split at the first ".safetensors:"; "FILE.safetensors" is a file too; any other text is the path of a
// .npy file, colons and all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/result.h"

namespace headnorm::cli {

struct TensorPath {
  std::string path;
  bool safetensors = false;
  std::optional<std::string> name;  // as given; only of safetensors
};
TensorPath parse_tensor_path(const std::string& text);

struct FileTensor {
  Dtype dtype = Dtype::f32;
  std::vector<std::int64_t> shape;
  std::string bytes;  // the data, after `offset` other bytes
  std::size_t offset = 0;

  const void* data() const { return bytes.data() + offset; }
  std::size_t data_bytes() const { return bytes.size() - offset; }
};

// Of a .safetensors file only the header and the bytes of this tensor are read. Without a name the file must hold one tensor alone.
// Errors (user, environment) name the path; where a name is missing or unknown they list those that there are.
Result<FileTensor> read_tensor(const std::string& text);

// That a tensor can be written as `text`. Error (user): a name that the format does not allow; the message begins with the option.
Result<void> check_tensor_output(const char* option, const std::string& text);

// What stands before the data in a new file. `name` is the tensor's where `text` gives none.
std::string tensor_header(const std::string& text, const std::string& name, Dtype dtype, const std::vector<std::int64_t>& shape);

}  // namespace headnorm::cli
