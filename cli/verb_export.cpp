// export: the records of a database in the formats of other projects.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "cli/database_option.h"
#include "cli/export_selection.h"
#include "cli/files.h"
#include "cli/record_json.h"
#include "cli/suggest.h"
#include "cli/text_option.h"
#include "cli/verb.h"
#include "core/counted.h"
#include "generator/export/format.h"

namespace headnorm::cli {
namespace {

namespace fs = std::filesystem;
using exports::File;
using exports::Format;
using exports::Naming;
using exports::Row;

constexpr std::string_view kSidecar = ".meta.json";

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const Format& format : exports::formats()) names.emplace_back(format.name);
  return names;
}

Result<const Format*> choose_format(const std::optional<std::string>& name) {
  const std::vector<std::string> names = format_names();
  if (!name) return user_error("--format is missing", fmt::format("give one of: {}", fmt::join(names, ", ")));
  if (const Format* format = exports::find_format(*name)) return format;
  return user_error(fmt::format("--format does not know '{}'", *name),
                    suggestion(*name, names) + fmt::format("use one of: {}", fmt::join(names, ", ")));
}

bool is_sidecar(const File& file) { return file.name.ends_with(kSidecar); }

// The files but their sidecars.
std::vector<const File*> main_files(const std::vector<File>& files) {
  std::vector<const File*> main;
  for (const File& file : files) {
    if (!is_sidecar(file)) main.push_back(&file);
  }
  return main;
}

Result<void> check_names(const std::vector<File>& files) {
  std::set<std::string> names;
  for (const File& file : files) {
    if (!names.insert(file.name).second)
      return user_error(fmt::format("two devices of the selection would share the file '{}'", file.name),
                        "choose one with --device");
  }
  return {};
}

Result<void> compress(std::vector<File>& files) {
  for (File& file : files) {
    if (is_sidecar(file)) continue;
    HEADNORM_TRY(file.bytes, exports::gzipped(file.bytes));
    file.name += ".gz";
  }
  return {};
}

class ExportVerb final : public Verb {
 public:
  void declare(CLI::App& command) override {
    add_text_option(command, "--format", format_, fmt::format("{}", fmt::join(format_names(), "|")), "which format");
    add_text_option(command, "-o,--output", output_, "FILE", "the file, or a directory where the format has several files");
    add_flag(command, "--gzip", gzip_, "compressed, for formats t4 and t4-ktt");
    database_.declare(command);
    selection_.declare(command);
  }

  Result<Report> run(const Context& context) override {
    HEADNORM_TRY(const Format* format, choose_format(format_));
    if (!output_) return user_error("-o is missing", "give -o FILE, or -o DIR where the format has several files");
    HEADNORM_CHECK(check_output("-o", *output_));
    if (gzip_ && !format->gzip)
      return user_error(fmt::format("--gzip is not for format {}", format->name), "leave it out, or use --format t4 or t4-ktt");
    HEADNORM_TRY(const Selection selection, read_selection(selection_));
    HEADNORM_TRY(const std::unique_ptr<Database> database, open_database(database_, context, DatabaseNeed::read));
    std::vector<Damage> damage;
    HEADNORM_TRY(const std::vector<Row> rows, choose_rows(*database, selection, *format, damage));
    HEADNORM_TRY(std::vector<File> files, format->render(rows, fmt::format("headnorm {}", HEADNORM_VERSION)));
    HEADNORM_CHECK(check_names(files));
    if (gzip_) HEADNORM_CHECK(compress(files));
    HEADNORM_TRY(const std::vector<fs::path> paths, write_all_files(*format, files));
    return make_report(*format, rows, damage, paths);
  }

 private:
  Result<std::vector<Row>> choose_rows(Database& database, const Selection& selection, const Format& format,
                                       std::vector<Damage>& damage) const {
    HEADNORM_TRY(std::vector<Row> rows, select_rows(database, selection, damage));
    if (format.gpu_only) {
      std::erase_if(rows, [](const Row& row) { return row.record.device.target.kind == TargetKind::host; });
      if (rows.empty())
        return user_error(
            fmt::format("format {} is for GPUs, and every record of the selection is of a host", format.name),
            "tune for a GPU, or use another format: csv, header, markdown and the Kernel Tuner ones take all devices");
    }
    return exports::canonical_rows(std::move(rows));
  }

  // Where one file is written, it has the name that the user gave; where there are several, theirs.
  bool is_directory(const Format& format, const std::vector<File>& files) const {
    std::error_code ignored;
    return format.naming == Naming::fixed || main_files(files).size() > 1 || output_->ends_with('/') ||
           fs::is_directory(*output_, ignored);
  }

  // All are made before the first is written.
  Result<std::vector<fs::path>> write_all_files(const Format& format, const std::vector<File>& files) const {
    std::vector<fs::path> paths;
    if (is_directory(format, files)) {
      HEADNORM_CHECK(make_directory(format, main_files(files).size()));
      for (const File& file : files) paths.push_back(fs::path(*output_) / file.name);
    } else {
      std::string plain = *output_;
      if (gzip_ && !is_special_file(plain)) {
        if (!plain.ends_with(".gz"))
          return user_error(fmt::format("-o '{}' does not end with .gz, and --gzip compresses it", plain),
                            "name it so, or leave --gzip out");
        plain.resize(plain.size() - 3);
      }
      for (const File& file : files) paths.emplace_back(is_sidecar(file) ? plain + std::string(kSidecar) : *output_);
      if (is_special_file(*output_)) paths.resize(1);  // nothing can stand beside it
    }
    for (std::size_t i = 0; i < paths.size(); ++i) HEADNORM_CHECK(write_file(paths[i], files[i].bytes));
    return paths;
  }

  Result<void> make_directory(const Format& format, std::size_t count) const {
    std::error_code error;
    if (fs::exists(*output_, error) && !fs::is_directory(*output_, error))
      return environment_error(fmt::format("'{}' is not a directory, and format {} writes {} of its own naming here", *output_,
                                           format.name, counted(count, "file")),
                               "name a directory, or select one record with --device, --preset and --evidence");
    fs::create_directory(*output_, error);
    if (error)
      return environment_error(fmt::format("the directory '{}' cannot be created: {}", *output_, error.message()),
                               "create it, or name another place");
    return {};
  }

  static Report make_report(const Format& format, const std::vector<Row>& rows, const std::vector<Damage>& damage,
                            const std::vector<fs::path>& paths) {
    Report report;
    report.document["format"] = format.name;
    report.document["records"] = Json::array();
    for (const Row& row : rows)
      report.document["records"].push_back({{"record", row.record.id},
                                            {"evidence", to_text(row.record.evidence)},
                                            {"candidates", exports::trials_of(row).size()},
                                            {"complete", exports::is_complete(row)}});
    report.document["damaged"] = damage_json(damage);
    report.document["files"] = Json::array();
    for (const fs::path& path : paths) {
      report.document["files"].push_back(path.string());
      report.text += fmt::format("wrote {}\n", path.string());
    }
    return report;
  }

  DatabaseOption database_;
  SelectionOptions selection_;
  std::optional<std::string> format_, output_;
  bool gzip_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_export_verb() { return std::make_unique<ExportVerb>(); }

}  // namespace headnorm::cli
