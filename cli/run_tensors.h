// Run tensors: the operands of one launch, from files into a device and back.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "cli/tensor_file.h"
#include "runtime/device.h"

namespace headnorm::cli {

// Names of files as they were given.
struct RunFiles {
  std::optional<std::string> input, residual, gamma, alpha, beta, output, residual_output;
};

// What can be said before any file is read. Errors (user).
Result<void> check_files(const RunFiles& files);

// That x has rows at all, before its shape stands for options. Error (user).
Result<void> check_rows(const std::string& file, const std::vector<std::int64_t>& shape);

struct RunTensors {
  std::array<Buffer, kOperandCount> buffers;
  LaunchArguments arguments;  // contiguous rows; with residual inplace y is x and residual_out is residual
};

// Every file must have the dtype and the shape that the spec asks for. Errors: of the files (user, environment), of the device.
Result<RunTensors> load_tensors(Device& device, const KernelSpec& spec, const RunFiles& files, const FileTensor& input);

// `shape` is that of the input file.
Result<void> store_outputs(Device& device, const KernelSpec& spec, const RunFiles& files, const RunTensors& tensors,
                           const std::vector<std::int64_t>& shape);

}  // namespace headnorm::cli
