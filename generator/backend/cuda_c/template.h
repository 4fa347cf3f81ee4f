// Templates: the hand-written CUDA C in templates/, compiled in, with slots such as {{entry}} that are filled by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace headnorm::cuda_c {

struct Slot {
  std::string_view name;
  std::string value;
};

// `text` with each slot replaced by its value, which is not searched for slots again. Error (internal): a slot without a value, a
// value without a slot, or a slot that does not end; `name` says of which template.
Result<std::string> fill(std::string_view name, std::string_view text, const std::vector<Slot>& slots);

// The same for templates/NAME.cu. Error (internal): there is no such template.
Result<std::string> fill_template(std::string_view name, const std::vector<Slot>& slots = {});

// Of all templates: part of the identity of a backend that compiles them.
std::string templates_digest();

struct Template {
  std::string_view name, text;
};
const std::vector<Template>& templates();  // in the order of their names

}  // namespace headnorm::cuda_c
