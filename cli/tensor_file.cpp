#include "cli/tensor_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/files.h"
#include "cli/npy.h"
#include "cli/report.h"
#include "cli/safetensors.h"
#include "cli/suggest.h"
#include "core/counted.h"

namespace headnorm::cli {
namespace {

constexpr std::string_view kExtension = ".safetensors";
constexpr std::size_t kListedNames = 8;
constexpr std::size_t kComparedName = 256;  // the distance of longer names is not worth its time

Error in_file(const std::string& path, const Error& error) {
  return Error{error.kind, fmt::format("'{}': {}", path, error.message), error.remedy};
}

// "'a', 'b' and 7 more", those nearest to `wanted` first; in the order of the file where nothing is wanted.
std::string list_names(std::vector<SafetensorsEntry> entries, const std::string& wanted) {
  const auto distance = [&](const SafetensorsEntry& entry) {
    const bool compared = wanted.size() <= kComparedName && entry.name.size() <= kComparedName;
    return compared && !wanted.empty() ? edit_distance(wanted, entry.name) : 0;
  };
  std::vector<std::pair<int, std::string>> names;
  for (const SafetensorsEntry& entry : entries) names.emplace_back(distance(entry), printable(entry.name));
  std::ranges::stable_sort(names, {}, [](const auto& name) { return name.first; });
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kListedNames); ++i)
    text += fmt::format("{}'{}'", i == 0 ? "" : ", ", names[i].second);
  return names.size() > kListedNames ? fmt::format("{} and {} more", text, names.size() - kListedNames) : text;
}

Result<SafetensorsEntry> choose_entry(const TensorPath& place, const std::vector<SafetensorsEntry>& entries) {
  if (entries.empty()) return user_error(fmt::format("'{}' holds no tensor", place.path), "give a file with tensors");
  if (place.name) {
    for (const SafetensorsEntry& entry : entries) {
      if (entry.name == *place.name) return entry;
    }
    return user_error(fmt::format("'{}' holds no tensor '{}'", place.path, printable(*place.name)),
                      fmt::format("it holds {}", list_names(entries, *place.name)));
  }
  if (entries.size() == 1) return entries.front();
  return user_error(fmt::format("'{}' holds {}, and none is named", place.path, counted(entries.size(), "tensor")),
                    fmt::format("give {}:NAME; it holds {}", place.path, list_names(entries, "")));
}

Result<Dtype> kernel_dtype(const TensorPath& place, const SafetensorsEntry& entry) {
  for (const Dtype dtype : kDtypes) {
    if (entry.dtype == safetensors_dtype(dtype)) return dtype;
  }
  return user_error(fmt::format("'{}': tensor '{}' is of dtype {}", place.path, printable(entry.name), printable(entry.dtype)),
                    "convert it: kernels take F32, F16 and BF16");
}

Result<FileTensor> read_safetensors(const TensorPath& place) {
  HEADNORM_TRY(const InputFile file, InputFile::open(place.path));
  HEADNORM_TRY(const std::string length, file.read(0, std::min(file.size(), kSafetensorsLengthBytes)));
  const Result<std::uint64_t> header_bytes = safetensors_header_bytes(length, file.size());
  if (!header_bytes.ok()) return in_file(place.path, header_bytes.error());
  const std::uint64_t data = kSafetensorsLengthBytes + *header_bytes;
  HEADNORM_TRY(const std::string header, file.read(kSafetensorsLengthBytes, *header_bytes));
  const auto entries = parse_safetensors_header(header, file.size() - data);
  if (!entries.ok()) return in_file(place.path, entries.error());
  HEADNORM_TRY(const SafetensorsEntry entry, choose_entry(place, *entries));
  FileTensor tensor;
  HEADNORM_TRY(tensor.dtype, kernel_dtype(place, entry));
  tensor.shape = entry.shape;
  HEADNORM_TRY(tensor.bytes, file.read(data + entry.begin, entry.end - entry.begin));
  return tensor;
}

}  // namespace

TensorPath parse_tensor_path(const std::string& text) {
  const std::size_t at = text.find(std::string(kExtension) + ":");
  if (at == std::string::npos) return {.path = text, .safetensors = text.ends_with(kExtension), .name = std::nullopt};
  const std::size_t colon = at + kExtension.size();
  return {.path = text.substr(0, colon), .safetensors = true, .name = text.substr(colon + 1)};
}

Result<FileTensor> read_tensor(const std::string& text) {
  const TensorPath place = parse_tensor_path(text);
  if (place.safetensors) return read_safetensors(place);
  HEADNORM_TRY(NpyArray array, read_npy(place.path));
  return FileTensor{.dtype = array.header.dtype,
                    .shape = std::move(array.header.shape),
                    .bytes = std::move(array.file),
                    .offset = array.header.data_offset};
}

Result<void> check_tensor_output(const char* option, const std::string& text) {
  const TensorPath place = parse_tensor_path(text);
  HEADNORM_CHECK(check_output(option, place.path));
  if (!place.name || is_safetensors_name(*place.name)) return {};
  return user_error(fmt::format("{} '{}': a tensor cannot be named '{}'", option, printable(text), printable(*place.name)),
                    "name it with letters, digits, '.' and '_', or leave ':NAME' out");
}

std::string tensor_header(const std::string& text, const std::string& name, Dtype dtype, const std::vector<std::int64_t>& shape) {
  const TensorPath place = parse_tensor_path(text);
  return place.safetensors ? safetensors_header(place.name.value_or(name), dtype, shape) : npy_header(dtype, shape);
}

}  // namespace headnorm::cli
