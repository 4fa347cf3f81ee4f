// presets: the shapes that --preset knows.
#include <fmt/format.h>

#include <algorithm>

#include "cli/presets.h"
#include "cli/table.h"
#include "cli/text_option.h"
#include "cli/verb.h"

namespace headnorm::cli {
namespace {

bool matches(const Preset& preset, const std::string& text) {
  auto contains = [&](const std::string& name) { return name.find(text) != std::string::npos; };
  return contains(preset.name) || std::ranges::any_of(preset.aliases, contains);
}

Json preset_json(const Preset& preset) {
  return {{"name", preset.name},
          {"aliases", preset.aliases},
          {"width", preset.width},
          {"head_size", preset.head_size},
          {"heads", preset.heads()},
          {"depth", preset.depth},
          {"tokens", preset.tokens},
          {"rows", preset.rows},
          {"dtype", to_text(preset.dtype)},
          {"eps", preset.eps},
          {"weight", to_text(preset.weight)},
          {"weight_offset", preset.weight_offset},
          {"stat", preset.stat},
          {"supported", preset_spec(preset).ok()},
          {"attention_heads", preset.attention_heads},
          {"source", preset.source},
          {"note", preset.note}};
}

class PresetsVerb final : public Verb {
 public:
  void declare(CLI::App& command) override {
    add_text_option(command, "name", text_, "PRESET", "only presets whose name contains this");
  }

  Result<Report> run(const Context&) override {
    Report report;
    report.document["presets"] = Json::array();
    Table table({"name", ">width", ">head", ">heads", ">depth", ">tokens", ">rows", "dtype", ">eps", "note"});
    for (const Preset& preset : presets()) {
      if (!matches(preset, text_)) continue;
      report.document["presets"].push_back(preset_json(preset));
      const bool supported = preset_spec(preset).ok();
      table.add({preset.name, fmt::to_string(preset.width), fmt::to_string(preset.head_size), fmt::to_string(preset.heads()),
                 fmt::to_string(preset.depth), fmt::to_string(preset.tokens), fmt::to_string(preset.rows), to_text(preset.dtype),
                 fmt::to_string(preset.eps), supported ? "" : "later"});
    }
    if (report.document["presets"].empty()) return find_preset(text_).error();
    report.text = table.render() + "Sources, notes and other names: 'headnorm presets --json'.\n";
    return report;
  }

 private:
  std::string text_;
};

}  // namespace

std::unique_ptr<Verb> make_presets_verb() { return std::make_unique<PresetsVerb>(); }

}  // namespace headnorm::cli
