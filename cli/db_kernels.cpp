#include "cli/db_kernels.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "core/counted.h"
#include "core/text.h"
#include "runtime/database/kernel_limit.h"

namespace headnorm::cli {
namespace {

struct Unit {
  const char* name;
  double size;
};

// A number and one of the units; none if it is anything else or out of range.
template <std::size_t N>
std::optional<double> parse_quantity(const std::string& text, const Unit (&units)[N], double most) {
  const std::size_t unit_at = text.find_first_not_of("0123456789.");
  const std::string unit = unit_at == std::string::npos ? "" : text.substr(unit_at);
  for (const Unit& candidate : units) {
    if (unit != candidate.name) continue;
    const Result<double> count = text::parse_number(text.substr(0, unit_at), "quantity");
    if (count.ok() && *count >= 0 && *count * candidate.size <= most) return *count * candidate.size;
  }
  return std::nullopt;
}

Result<std::int64_t> parse_seconds(const std::string& text) {
  constexpr Unit kUnits[] = {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
  if (const auto seconds = parse_quantity(text, kUnits, 86400.0 * 36500)) return static_cast<std::int64_t>(*seconds);
  return user_error(fmt::format("--grace '{}' is not a number and a unit of time", text), "give --grace 1h, 30m, 10s or 0, say");
}

}  // namespace

Result<std::int64_t> parse_bytes(const std::string& text) {
  constexpr Unit kUnits[] = {{"", 1},     {"B", 1},        {"kB", 1e3},     {"MB", 1e6},
                             {"GB", 1e9}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}};
  if (const auto bytes = parse_quantity(text, kUnits, 0x1p60)) return static_cast<std::int64_t>(*bytes);
  return user_error(fmt::format("--limit '{}' is not a size", text), "give --limit 512MiB, 2GiB or 0, say");
}

Result<KernelLimit> parse_limit(const CollectOptions& options) {
  KernelLimit limit;
  HEADNORM_TRY(limit.bytes, parse_bytes(options.limit));
  HEADNORM_TRY(limit.grace_seconds, parse_seconds(options.grace));
  return limit;
}

Result<Report> collect(const Database& database, const KernelLimit& limit, Report report) {
  const std::filesystem::path path = database.directory() / "kernels";
  HEADNORM_TRY(const std::optional<Directory> kernels, Directory::open(AT_FDCWD, path.string(), path, Trust::code));
  Collected collected;
  if (kernels) {
    FileOps ops;
    HEADNORM_TRY(collected, collect_kernels(ops, *kernels, limit));
  }
  report.document["kept"] = {{"kernels", collected.kept}, {"bytes", collected.kept_bytes}};
  report.document["removed"] = {{"kernels", collected.removed}, {"bytes", collected.removed_bytes}};
  report.document["limit_bytes"] = limit.bytes;
  report.text = fmt::format("{}: {} of {} kept, {} of {} removed\n", path.string(), counted(collected.kept, "kernel"),
                            counted(collected.kept_bytes, "byte"), collected.removed, counted(collected.removed_bytes, "byte"));
  if (collected.kept_bytes > limit.bytes)
    report.text += fmt::format("above the limit of {}: what is younger than --grace {}s stays\n", counted(limit.bytes, "byte"),
                               limit.grace_seconds);
  return report;
}

}  // namespace headnorm::cli
