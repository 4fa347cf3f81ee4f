// Report: what a verb has to say, as a JSON document and as text; and how both are printed. The only printing code of the project.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "cli/environment.h"
#include "core/result.h"

namespace headnorm::cli {

using Json = nlohmann::ordered_json;

enum ExitCode : int {
  kExitOk = 0,
  kExitCheckFailed = 1,
  kExitUsage = 2,
  kExitEnvironment = 3,
  kExitInternal = 70,
  kExitInterrupted = 75,  // the same command resumes
};

struct Report {
  Json document = Json::object();  // without the keys that every document has
  std::string text;                // for standard output
  int exit_code = kExitOk;
  std::optional<Error> error;  // with an exit code that is not 0
};

// What every verb is given.
struct Context {
  const Environment& environment;
  std::string verb;
  bool json = false;
};

int exit_code_of(const Error& error);

// "warning: ..." on standard error.
void print_warning(const Context& context, std::string_view text);

// Prints and returns the exit code. A closed pipe on standard output is no failure; any other failed write is.
int print_report(const Context& context, const Report& report);
int print_error(const Context& context, const Error& error);

// Texts of a file as they may be printed: control bytes do not reach a terminal.
std::string printable(std::string_view text);

// A finite number, or "nan", "inf", "-inf", which JSON numbers cannot say.
Json number_json(double value);

}  // namespace headnorm::cli
