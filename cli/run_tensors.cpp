#include "cli/run_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/files.h"
#include "cli/npy.h"

namespace headnorm::cli {
namespace {

struct InputOption {
  Operand operand;
  const char* name;
  std::optional<std::string> RunFiles::*file;
  float missing;      // the value of every element without a file
  const char* owner;  // the option that makes the kernel read it
};

constexpr InputOption kInputs[] = {
    {Operand::residual, "--residual-input", &RunFiles::residual, 0, "--residual add"},
    {Operand::gamma, "--gamma", &RunFiles::gamma, 1, "--weight channel"},
    {Operand::alpha, "--alpha", &RunFiles::alpha, 1, "--gate seednorm"},
    {Operand::beta, "--beta", &RunFiles::beta, 0, "--gate seednorm"},
};

std::size_t index_of(Operand operand) { return static_cast<std::size_t>(operand); }

Result<void> check_dtype(const char* option, const std::string& file, Dtype found, Dtype wanted, const char* dtype_option) {
  if (found == wanted) return {};
  return user_error(
      fmt::format("{} '{}' holds {}, and the kernel takes {}", option, file, to_text(found), to_text(wanted)),
      fmt::format("give {} {}, or convert the file: values are never converted silently", dtype_option, to_text(found)));
}

Result<void> check_shape(const char* option, const std::string& file, const std::vector<std::int64_t>& found,
                         const std::vector<std::int64_t>& wanted) {
  if (found == wanted) return {};
  return user_error(
      fmt::format("{} '{}' has shape {}, and the kernel takes {}", option, file, shape_text(found), shape_text(wanted)),
      "give a file of that shape, or change the shape options");
}

// Rows of an input of two or more dimensions, the last of which is the width.
Result<std::int64_t> count_rows(const KernelSpec& spec, const std::string& file, const std::vector<std::int64_t>& shape) {
  if (shape.back() != spec.width)
    return user_error(fmt::format("--input '{}' has rows of {}, and the width is {}", file, shape.back(), spec.width),
                      fmt::format("give --width {}, or another file", shape.back()));
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) {
    // Only an array without elements can have sizes whose product does not fit.
    if (__builtin_mul_overflow(rows, shape[i], &rows)) return 0;
  }
  return rows;
}

// Copies into a buffer of the device's own; an empty operand has none.
Result<void> place(Device& device, RunTensors& tensors, Operand operand, const void* data, std::size_t bytes) {
  if (bytes == 0) return {};
  HEADNORM_TRY(Buffer buffer, device.allocate(bytes));
  if (data != nullptr) HEADNORM_CHECK(device.copy_in(buffer.address(), data, bytes));
  tensors.arguments.address(operand) = buffer.address();
  tensors.buffers[index_of(operand)] = std::move(buffer);
  return {};
}

Result<void> place_constant(Device& device, RunTensors& tensors, const KernelSpec& spec, Operand operand, float value) {
  const Dtype dtype = operand_dtype(spec, operand);
  const auto size = static_cast<std::size_t>(size_bytes(dtype)), count = static_cast<std::size_t>(operand_elements(spec, operand));
  std::string bytes(size * count, '\0');
  for (std::size_t i = 0; i < count; ++i) store_element(bytes.data() + i * size, dtype, value);
  return place(device, tensors, operand, bytes.data(), bytes.size());
}

Result<void> load_input(Device& device, RunTensors& tensors, const KernelSpec& spec, const RunFiles& files,
                        const InputOption& option, const std::vector<std::int64_t>& x_shape) {
  const std::optional<std::string>& file = files.*option.file;
  if (!has_operand(spec, option.operand)) {
    if (!file) return {};
    return user_error(fmt::format("{} '{}' is given, and the kernel has no {}", option.name, *file, to_text(option.operand)),
                      fmt::format("leave it out, or add {}", option.owner));
  }
  if (!file) {
    if (option.operand != Operand::residual) return place_constant(device, tensors, spec, option.operand, option.missing);
    return user_error(fmt::format("--residual {} takes a residual stream, and --residual-input is missing", to_text(spec.residual)),
                      "give --residual-input R.npy");
  }
  HEADNORM_TRY(const FileTensor array, read_tensor(*file));
  const bool is_weight = option.operand != Operand::residual;
  HEADNORM_CHECK(check_dtype(option.name, *file, array.dtype, operand_dtype(spec, option.operand),
                             is_weight ? "--weight-dtype" : "--residual-dtype"));
  HEADNORM_CHECK(
      check_shape(option.name, *file, array.shape, is_weight ? std::vector{operand_elements(spec, option.operand)} : x_shape));
  return place(device, tensors, option.operand, array.data(), array.data_bytes());
}

Result<void> place_outputs(Device& device, RunTensors& tensors, const KernelSpec& spec) {
  LaunchArguments& arguments = tensors.arguments;
  if (spec.residual == Residual::inplace) {
    arguments.address(Operand::y) = arguments.address(Operand::x);
    arguments.address(Operand::residual_out) = arguments.address(Operand::residual);
    return {};
  }
  for (Operand operand : {Operand::y, Operand::residual_out}) {
    if (!has_operand(spec, operand)) continue;
    const std::int64_t bytes = arguments.rows * spec.width * size_bytes(operand_dtype(spec, operand));
    HEADNORM_CHECK(place(device, tensors, operand, nullptr, static_cast<std::size_t>(bytes)));
  }
  return {};
}

Result<void> store_output(Device& device, const KernelSpec& spec, Operand operand, const std::string& file,
                          const RunTensors& tensors, const std::vector<std::int64_t>& shape) {
  const Dtype dtype = operand_dtype(spec, operand);
  std::string bytes = tensor_header(file, to_text(operand), dtype, shape);
  const std::size_t begin = bytes.size();
  const auto count = static_cast<std::size_t>(tensors.arguments.rows * spec.width * size_bytes(dtype));
  bytes.resize(begin + count);
  if (count > 0) HEADNORM_CHECK(device.copy_out(bytes.data() + begin, tensors.arguments.address(operand), count));
  return write_file(parse_tensor_path(file).path, bytes);
}

}  // namespace

Result<void> check_files(const RunFiles& files) {
  if (!files.input) return user_error("--input is missing", "give --input X.npy, rows of activations");
  if (!files.output) return user_error("--output is missing", "give --output Y.npy");
  for (const auto& [name, file] :
       {std::pair("--input", &files.input), std::pair("--residual-input", &files.residual), std::pair("--gamma", &files.gamma),
        std::pair("--alpha", &files.alpha), std::pair("--beta", &files.beta)}) {
    if (*file && (*file)->empty())
      return user_error(fmt::format("the file name after {} is empty", name),
                        fmt::format("give {} FILE.npy or FILE.safetensors:TENSOR", name));
  }
  HEADNORM_CHECK(check_tensor_output("--output", *files.output));
  if (!files.residual_output) return {};
  HEADNORM_CHECK(check_tensor_output("--residual-output", *files.residual_output));
  if (final_path(parse_tensor_path(*files.residual_output).path) == final_path(parse_tensor_path(*files.output).path))
    return user_error(
        fmt::format("--output '{}' and --residual-output '{}' are the same file", *files.output, *files.residual_output),
        "give two files");
  return {};
}

Result<void> check_rows(const std::string& file, const std::vector<std::int64_t>& shape) {
  if (shape.size() >= 2) return {};
  return user_error(fmt::format("--input '{}' has shape {}, and rows of a width are two dimensions", file, shape_text(shape)),
                    "reshape it to (rows, width)");
}

Result<RunTensors> load_tensors(Device& device, const KernelSpec& spec, const RunFiles& files, const FileTensor& input) {
  if (files.residual_output && !spec.has_residual())
    return user_error(fmt::format("--residual-output '{}' is given, and the kernel has no residual", *files.residual_output),
                      "leave it out, or add --residual add");
  HEADNORM_CHECK(check_dtype("--input", *files.input, input.dtype, spec.x_dtype, "--dtype"));
  RunTensors tensors;
  HEADNORM_TRY(tensors.arguments.rows, count_rows(spec, *files.input, input.shape));
  for (Operand operand : kOperands) tensors.arguments.stride(operand) = spec.width;
  HEADNORM_CHECK(place(device, tensors, Operand::x, input.data(), input.data_bytes()));
  for (const InputOption& option : kInputs) HEADNORM_CHECK(load_input(device, tensors, spec, files, option, input.shape));
  HEADNORM_CHECK(place_outputs(device, tensors, spec));
  return tensors;
}

Result<void> store_outputs(Device& device, const KernelSpec& spec, const RunFiles& files, const RunTensors& tensors,
                           const std::vector<std::int64_t>& shape) {
  HEADNORM_CHECK(store_output(device, spec, Operand::y, *files.output, tensors, shape));
  if (!files.residual_output) return {};
  return store_output(device, spec, Operand::residual_out, *files.residual_output, tensors, shape);
}

}  // namespace headnorm::cli
