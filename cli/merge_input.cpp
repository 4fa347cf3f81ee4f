#include "cli/merge_input.h"

#include <fmt/format.h>

#include "cli/files.h"
#include "cli/suggest.h"
#include "core/counted.h"
#include "generator/export/format.h"
#include "generator/export/import.h"

namespace headnorm::cli {
namespace {

namespace fs = std::filesystem;

Error in_file(const fs::path& path, const Error& error) {
  return {error.kind, fmt::format("'{}': {}", path.string(), error.message), error.remedy};
}

// Compressed files are known by their first bytes.
Result<std::string> read_text(const fs::path& path) {
  HEADNORM_TRY(const InputFile file, InputFile::open(path));
  if (file.size() > exports::kMostImportBytes)
    return user_error(fmt::format("'{}': {}, more than {}", path.string(), counted(file.size(), "byte"), exports::kMostImportBytes),
                      "split it");
  HEADNORM_TRY(std::string bytes, file.read(0, file.size()));
  if (!bytes.starts_with("\x1f\x8b")) return bytes;
  Result<std::string> text = exports::gunzipped(bytes, exports::kMostImportBytes);
  if (!text.ok()) return in_file(path, text.error());
  return text;
}

fs::path sidecar_of(const fs::path& path) {
  fs::path plain = path;
  if (plain.extension() == ".gz") plain.replace_extension();
  return plain += ".meta.json";
}

Result<std::vector<MergeEntry>> parse(const std::string& format, const fs::path& path, const std::string& text) {
  if (format == "csv") return exports::entries_from_csv(text);
  const Result<std::string> sidecar = read_text(sidecar_of(path));
  if (!sidecar.ok())
    return Error{sidecar.error().kind, sidecar.error().message,
                 "keep it beside the file: 'headnorm export' writes both, and it names the kernels"};
  return format == "t4" ? exports::entries_from_t4(text, *sidecar) : exports::entries_from_kernel_tuner_cache(text, *sidecar);
}

}  // namespace

Result<std::vector<MergeEntry>> read_database(const fs::path& directory, const Context& context) {
  DatabaseOptions options;
  options.read_only = true;
  options.warn = [&context](const std::string& text) { print_warning(context, text); };
  HEADNORM_TRY(const std::unique_ptr<Database> database, Database::open(directory, options));
  std::vector<Damage> damage;
  HEADNORM_TRY(std::vector<Record> records, database->list(&damage));
  if (!damage.empty())
    return user_error(fmt::format("{} of '{}' is damaged: {}", damage[0].file, directory.string(), damage[0].reason),
                      "delete it, then merge again: 'headnorm db check' names all that are damaged");
  std::vector<MergeEntry> entries;
  for (Record& record : records) {
    HEADNORM_TRY(std::optional<TrialLog> trials, database->find_trials(record));
    entries.push_back({std::move(record), std::move(trials)});
  }
  return entries;
}

Result<std::vector<MergeEntry>> read_import(const std::string& format, const fs::path& path) {
  const std::vector<std::string> formats = {"csv", "kernel-tuner-cache", "t4"};
  if (std::ranges::find(formats, format) == formats.end())
    return user_error(fmt::format("--format '{}' cannot be imported", format),
                      suggestion(format, formats) + "use csv, kernel-tuner-cache or t4");
  HEADNORM_TRY(const std::string text, read_text(path));
  Result<std::vector<MergeEntry>> entries = parse(format, path, text);
  if (!entries.ok()) return in_file(path, entries.error());
  return entries;
}

}  // namespace headnorm::cli
