#include "cli/report.h"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace headnorm::cli {
namespace {

void write_error_text(const Environment& environment, std::string_view label, std::string_view text) {
  const char* begin = environment.color ? "\033[1;31m" : "";
  const char* end = environment.color ? "\033[0m" : "";
  const std::string line = fmt::format("{}{}:{} {}\n", begin, label, end, text);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void print_error_text(const Environment& environment, const Error& error) {
  write_error_text(environment, "error", error.message);
  if (!error.remedy.empty()) write_error_text(environment, "remedy", error.remedy);
}

// The exit code after writing: a reader that has seen enough closes its end, which is not our failure.
int write_stdout(const Environment& environment, const std::string& text, int exit_code) {
  errno = 0;
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (std::fflush(stdout) == 0 && written) return exit_code;
  if (errno == EPIPE) return exit_code;
  print_error_text(environment, environment_error(fmt::format("standard output cannot be written: {}", std::strerror(errno)),
                                                  "free disk space, or send the output elsewhere"));
  return kExitEnvironment;
}

Json error_json(const Error& error) {
  return {{"kind", to_text(error.kind)}, {"message", error.message}, {"remedy", error.remedy}};
}

// Names of files may hold any bytes: those that are not UTF-8 are replaced, so that the document is always valid JSON.
std::string dump(const Json& document) { return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace

int exit_code_of(const Error& error) {
  switch (error.kind) {
    case ErrorKind::user:
      return kExitUsage;
    case ErrorKind::environment:
      return kExitEnvironment;
    case ErrorKind::internal:
      return kExitInternal;
  }
  return kExitInternal;
}

void print_warning(const Context& context, std::string_view text) { write_error_text(context.environment, "warning", text); }

int print_report(const Context& context, const Report& report) {
  if (!context.json) {
    const int code = write_stdout(context.environment, report.text, report.exit_code);
    if (report.error) print_error_text(context.environment, *report.error);
    return code;
  }
  Json document = {{"headnorm", HEADNORM_VERSION}, {"verb", context.verb}, {"ok", report.exit_code == kExitOk}};
  if (report.error) document["error"] = error_json(*report.error);
  document.update(report.document);
  return write_stdout(context.environment, dump(document), report.exit_code);
}

int print_error(const Context& context, const Error& error) {
  return print_report(context, {.document = Json::object(), .text = "", .exit_code = exit_code_of(error), .error = error});
}

std::string printable(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    escaped += byte < 0x20 || byte >= 0x7f ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return escaped;
}

Json number_json(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

}  // namespace headnorm::cli
