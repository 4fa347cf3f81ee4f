#include "tests/aarch64/launch_file.h"

#include <algorithm>
#include <cstring>

namespace headnorm::test {
namespace {

// Numbers as 8 bytes of this machine (both sides are little endian); texts and lists after their length.
class Writer {
 public:
  void number(std::int64_t value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void text(const std::string& value) {
    number(static_cast<std::int64_t>(value.size()));
    bytes_ += value;
  }
  void texts(const std::vector<std::string>& values) {
    number(static_cast<std::int64_t>(values.size()));
    for (const std::string& value : values) text(value);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads zeros and empty texts past the end, and is then no longer whole().
class Reader {
 public:
  explicit Reader(const std::string& bytes) : bytes_(bytes) {}

  std::int64_t number() {
    std::int64_t value = 0;
    if (take(sizeof value)) std::memcpy(&value, bytes_.data() + at_ - sizeof value, sizeof value);
    return value;
  }
  std::string text() {
    const auto size = static_cast<std::size_t>(number());
    return take(size) ? bytes_.substr(at_ - size, size) : "";
  }
  std::vector<std::string> texts() {
    std::vector<std::string> values;
    for (std::int64_t left = number(); left > 0 && whole_; --left) values.push_back(text());
    return values;
  }
  bool whole() const { return whole_; }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  bool take(std::size_t size) {
    whole_ = whole_ && size <= bytes_.size() - at_;
    if (whole_) at_ += size;
    return whole_;
  }

  const std::string& bytes_;
  std::size_t at_ = 0;
  bool whole_ = true;
};

template <class Item>
std::vector<Item> items_in(const std::string& bytes, Item (*read)(Reader&)) {
  std::vector<Item> items;
  Reader reader(bytes);
  while (!reader.at_end()) {
    Item item = read(reader);
    if (!reader.whole()) break;
    items.push_back(std::move(item));
  }
  return items;
}

LaunchCase read_case(Reader& reader) {
  LaunchCase launch;
  for (std::string* text : {&launch.spec, &launch.schedule, &launch.target, &launch.entry, &launch.object}) *text = reader.text();
  launch.rows = reader.number();
  for (std::int64_t& stride : launch.layout.strides) stride = reader.number();
  for (std::int64_t& offset : launch.layout.offset_bytes) offset = reader.number();
  launch.layout.alias = static_cast<Alias>(reader.number());
  launch.images = reader.texts();
  return launch;
}

LaunchResult read_result(Reader& reader) {
  LaunchResult result;
  result.error = reader.text();
  result.images = reader.texts();
  return result;
}

}  // namespace

std::vector<std::string> images_of(LaunchTensors& tensors) {
  std::vector<std::string> images;
  for (Tensor* tensor : tensors.tensors()) {
    const auto image = tensor->image();
    images.emplace_back(reinterpret_cast<const char*>(image.data()), image.size());
  }
  return images;
}

bool set_images(LaunchTensors& tensors, const std::vector<std::string>& images) {
  const std::vector<Tensor*> present = tensors.tensors();
  if (images.size() != present.size()) return false;
  for (std::size_t i = 0; i < images.size(); ++i) {
    const auto image = present[i]->image();
    if (images[i].size() != image.size()) return false;
    std::memcpy(image.data(), images[i].data(), image.size());
  }
  return true;
}

std::string to_bytes(const LaunchCase& launch) {
  Writer writer;
  for (const std::string* text : {&launch.spec, &launch.schedule, &launch.target, &launch.entry, &launch.object})
    writer.text(*text);
  writer.number(launch.rows);
  for (std::int64_t stride : launch.layout.strides) writer.number(stride);
  for (std::int64_t offset : launch.layout.offset_bytes) writer.number(offset);
  writer.number(static_cast<std::int64_t>(launch.layout.alias));
  writer.texts(launch.images);
  return writer.take();
}

std::string to_bytes(const LaunchResult& result) {
  Writer writer;
  writer.text(result.error);
  writer.texts(result.images);
  return writer.take();
}

std::vector<LaunchCase> cases_in(const std::string& bytes) { return items_in(bytes, read_case); }
std::vector<LaunchResult> results_in(const std::string& bytes) { return items_in(bytes, read_result); }

}  // namespace headnorm::test
