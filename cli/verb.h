// Verb: one subcommand of headnorm. It declares its options, then answers with a Report; it prints nothing itself, except warnings
// and progress on standard error.
#pragma once

#include <memory>
#include <span>

#include "cli/report.h"

namespace CLI {
class App;
}

namespace headnorm::cli {

class Verb {
 public:
  virtual ~Verb() = default;
  virtual void declare(CLI::App& command) = 0;
  virtual Result<Report> run(const Context& context) = 0;
};

std::unique_ptr<Verb> make_calibrate_verb();
std::unique_ptr<Verb> make_completion_verb();
std::unique_ptr<Verb> make_db_verb();
std::unique_ptr<Verb> make_devices_verb();
std::unique_ptr<Verb> make_doctor_verb();
std::unique_ptr<Verb> make_explain_verb();
std::unique_ptr<Verb> make_export_verb();
std::unique_ptr<Verb> make_generate_verb();
std::unique_ptr<Verb> make_presets_verb();
std::unique_ptr<Verb> make_run_verb();
std::unique_ptr<Verb> make_tune_verb();
std::unique_ptr<Verb> make_verify_verb();

struct VerbEntry {
  const char* name;
  const char* summary;
  const char* examples;  // lines for the help text
  std::unique_ptr<Verb> (*make)();
};

// All of them, as `headnorm --help` lists them.
std::span<const VerbEntry> verbs();

// What stands before the verb.
struct CommandOptions {
  bool version = false, json = false;
};
void declare_command(CLI::App& app, CommandOptions& options);

// The subcommand of a verb with what all verbs have: --json and the examples. Its own options are declared by the verb.
CLI::App* add_verb(CLI::App& app, const VerbEntry& entry, CommandOptions& options);

}  // namespace headnorm::cli
