// Presets: the shapes of published models by name, compiled into the command from presets.json.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/kernel_spec.h"

namespace headnorm::cli {

struct Preset {
  std::string name;
  std::vector<std::string> aliases;
  std::int64_t width = 0, head_size = 0;
  int depth = 0;            // blocks of the model
  std::int64_t tokens = 0;  // of one image or sequence
  std::int64_t rows = 0;    // tokens times a usual batch: what a verb takes when no rows are given
  Dtype dtype = Dtype::bf16;
  double eps = 1e-6;
  double weight_offset = 0;
  WeightForm weight = WeightForm::channel;
  std::string stat = "rms";     // "layernorm": listed for completeness, refused when used
  std::string attention_heads;  // of the model's attention, in words; may be empty
  std::string source;           // where the numbers come from, and how sure they are
  std::string note;

  std::int64_t heads() const { return width / head_size; }
};

// The text of presets.json.
extern const char* const kPresetsJson;

const std::vector<Preset>& presets();

// By name or alias. Error (user): no such preset; the remedy names the nearest.
Result<const Preset*> find_preset(std::string_view name);

// What the preset computes. Error (user): it needs something that this version does not do.
Result<KernelSpec> preset_spec(const Preset& preset);

}  // namespace headnorm::cli
