#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/verb.h"

namespace headnorm::cli {
namespace {

constexpr VerbEntry kVerbs[] = {
    {"presets", "shapes of published models",
     "  headnorm presets\n"
     "  headnorm presets qwen3 --json",
     make_presets_verb},
    {"devices", "what kernels can run on here",
     "  headnorm devices\n"
     "  headnorm devices --json",
     make_devices_verb},
    {"doctor", "what is installed or missing, and the remedy",
     "  headnorm doctor\n"
     "  headnorm doctor --db tuned",
     make_doctor_verb},
    {"generate", "write the kernel of a shape: PTX, object code, listings",
     "  headnorm generate --preset wide-vit-4096 --target sm_90 --emit ptx -o norm.ptx\n"
     "  headnorm generate --width 1024 --gate seednorm --target host --emit asm",
     make_generate_verb},
    {"explain", "what a kernel computes, its plan, its bytes and time at best",
     "  headnorm explain --preset qwen3-8b --target sm_90\n"
     "  headnorm explain --width 4096 --schedule form=rot,store=nt",
     make_explain_verb},
    {"tune", "search, verify, measure and store schedules of a shape",
     "  headnorm tune --preset wide-vit-4096 --rows 1,64,12608 --db tuned\n"
     "  headnorm tune --width 768 --rows 4096 --search random --budget 30s --seed 7",
     make_tune_verb},
    {"run", "run the kernel that the database serves on .npy and .safetensors files",
     "  headnorm run --preset wide-vit-4096 --input x.npy --output y.npy\n"
     "  headnorm run --width 768 --residual add --input x.npy --residual-input r.npy --gamma g.npy --output y.npy",
     make_run_verb},
    {"verify", "compare kernels with double precision",
     "  headnorm verify --grid standard\n"
     "  headnorm verify --preset dit-xl-2 --rows 1,64",
     make_verify_verb},
    {"calibrate", "fit a cost model to measured times",
     "  headnorm calibrate --device model:h200 --db tuned -o my-h200.json\n"
     "  headnorm tune --preset wide-vit-4096 --device model:my-h200.json",
     make_calibrate_verb},
    {"completion", "a script that completes headnorm's command lines in a shell",
     "  source <(headnorm completion bash)\n"
     "  headnorm completion zsh > ~/.zfunc/_headnorm\n"
     "  headnorm completion fish > ~/.config/fish/completions/headnorm.fish",
     make_completion_verb},
    {"db", "what a database holds, and whether it is whole",
     "  headnorm db list\n"
     "  headnorm db show 3f2a --db tuned\n"
     "  headnorm db check --json\n"
     "  headnorm db merge other --db tuned",
     make_db_verb},
    {"export", "the records in the formats of other projects",
     "  headnorm export --format csv --db tuned -o tuned.csv\n"
     "  headnorm export --format kernel-tuner-cache --preset wide-vit-4096 --db tuned -o caches\n"
     "  headnorm export --format header --evidence measured,predicted -o headnorm_tuned.h",
     make_export_verb},
};

}  // namespace

std::span<const VerbEntry> verbs() { return kVerbs; }

void declare_command(CLI::App& app, CommandOptions& options) {
  app.add_flag("--version", options.version, "the version, and nothing else");
  app.add_flag("--json", options.json, "one JSON document on standard output");
}

CLI::App* add_verb(CLI::App& app, const VerbEntry& entry, CommandOptions& options) {
  CLI::App* command = app.add_subcommand(entry.name, entry.summary);
  command->add_flag("--json", options.json, "one JSON document on standard output");
  command->footer(fmt::format("Examples:\n{}", entry.examples));
  return command;
}

}  // namespace headnorm::cli
