#include "generator/backend/cuda_c/template.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/digest.h"

namespace headnorm::cuda_c {

Result<std::string> fill(std::string_view name, std::string_view text, const std::vector<Slot>& slots) {
  std::string filled;
  std::vector<bool> used(slots.size());
  while (true) {
    const std::size_t begin = text.find("{{");
    filled += text.substr(0, begin);
    if (begin == std::string_view::npos) break;
    const std::size_t end = text.find("}}", begin);
    if (end == std::string_view::npos) return internal_error(fmt::format("template {}: a slot does not end", name));
    const std::string_view wanted = text.substr(begin + 2, end - begin - 2);
    const auto slot = std::find_if(slots.begin(), slots.end(), [&](const Slot& other) { return other.name == wanted; });
    if (slot == slots.end()) return internal_error(fmt::format("template {}: nothing fills its slot '{}'", name, wanted));
    used[static_cast<std::size_t>(slot - slots.begin())] = true;
    filled += slot->value;
    text.remove_prefix(end + 2);
  }
  const auto idle = std::find(used.begin(), used.end(), false);
  if (idle != used.end())
    return internal_error(
        fmt::format("template {} has no slot '{}'", name, slots[static_cast<std::size_t>(idle - used.begin())].name));
  return filled;
}

Result<std::string> fill_template(std::string_view name, const std::vector<Slot>& slots) {
  for (const Template& candidate : templates()) {
    if (candidate.name == name) return fill(name, candidate.text, slots);
  }
  return internal_error(fmt::format("there is no template '{}'", name));
}

std::string templates_digest() {
  DigestBuilder digest;
  for (const Template& part : templates()) digest.add(part.name, part.text);
  return digest.hex().substr(0, 16);
}

}  // namespace headnorm::cuda_c
