// db: what a database holds, whether it is whole, how much of it is kept, and what others add to it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "cli/database_option.h"
#include "cli/db_kernels.h"
#include "cli/db_merge.h"
#include "cli/record_json.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "core/counted.h"
#include "runtime/database/table_digest.h"

namespace headnorm::cli {
namespace {

class DbVerb final : public Verb {
 public:
  void declare(CLI::App& command) override {
    command.require_subcommand(0, 1);
    database_.declare(command);
    list_ = declare_part(command, "list", "the records, one a line");
    show_ = declare_part(command, "show", "one record in full");
    show_->add_option("record", record_, "a record's id, or the beginning of one")->type_name("ID");
    check_ = declare_part(command, "check", "reads every file; exit code 1 if any is damaged");
    digest_ = declare_part(command, "digest", "one number for all records: equal where the tables are");
    gc_ = declare_part(command, "gc", "removes compiled kernels, those used longest ago first, down to a size");
    gc_->add_option("--limit", collect_.limit, "size to keep (1GiB)")->type_name("SIZE");
    gc_->add_option("--grace", collect_.grace, "what is younger stays (1h)")->type_name("TIME");
    merge_ = declare_part(command, "merge", "takes in the better records of other databases: all of them, or none");
    merge_->add_option("other", others_, "directories of databases")->type_name("DIR");
    import_ = declare_part(command, "import", "takes in files that export wrote, as merge does");
    import_->add_option("file", files_, "the files, each with its FILE.meta.json beside it (csv: without)")->type_name("FILE");
    import_->add_option("--format", format_, "what they are")->type_name("csv|kernel-tuner-cache|t4");
    diff_ = declare_part(command, "diff", "records that one of two databases lacks, or has otherwise");
    diff_->add_option("directory", pair_, "the two directories")->type_name("DIR");
    // Accepted, and refused with the reason.
    later_ = command.add_subcommand("repair", "later")->group("");
    later_->allow_extras();
  }

  Result<Report> run(const Context& context) override {
    if (later_->parsed())
      return user_error(fmt::format("db repair is not in this version (headnorm {})", HEADNORM_VERSION),
                        "use db check, which names damaged files, and delete those");
    if (diff_->parsed()) return diff(context);
    if (merge_->parsed() || import_->parsed()) return take_in(context);
    const auto parsed = [](const CLI::App* part) { return part->parsed(); };
    if (std::ranges::none_of(std::array{list_, show_, check_, digest_, gc_}, parsed))
      return user_error("db is given nothing to do",
                        "use db list, db show ID, db check, db digest, db gc, db merge DIR, db import FILE or db diff A B");
    HEADNORM_CHECK(check_database_option(database_));
    if (show_->parsed() && record_.empty()) return user_error("db show is given no record", "give an id of 'headnorm db list'");
    HEADNORM_TRY(const KernelLimit limit, parse_limit(collect_));
    HEADNORM_TRY(const std::unique_ptr<Database> database, open_database(database_, context, DatabaseNeed::read));
    Report report;
    report.document["directory"] = database->directory().string();
    if (list_->parsed()) return list(*database, std::move(report));
    if (digest_->parsed()) return digest(*database, std::move(report));
    if (gc_->parsed()) return collect(*database, limit, std::move(report));
    return show_->parsed() ? show(*database, std::move(report)) : check(*database, std::move(report));
  }

 private:
  CLI::App* declare_part(CLI::App& command, const char* name, const char* summary) {
    CLI::App* part = command.add_subcommand(name, summary);
    part->add_flag("--json", json_, "one JSON document on standard output");
    database_.declare(*part);
    return part;
  }

  Result<Report> diff(const Context& context) const {
    if (pair_.size() != 2)
      return user_error(fmt::format("db diff is given {}, not two", counted(pair_.size(), "database")),
                        "give the directories of two");
    return diff_databases(pair_[0], pair_[1], context);
  }

  Result<Report> take_in(const Context& context) const {
    if (import_->parsed() && format_.empty())
      return user_error("db import is given no --format", "give --format csv, kernel-tuner-cache or t4");
    HEADNORM_TRY(const std::vector<MergeEntry> entries,
                 merge_->parsed() ? read_databases(others_, context) : read_imports(format_, files_));
    // Only now: what cannot be read makes no directory.
    HEADNORM_TRY(const std::unique_ptr<Database> database, open_database(database_, context, DatabaseNeed::write));
    return cli::take_in(entries, *database);
  }

  Result<Report> list(Database& database, Report report) const {
    std::vector<Damage> damage;
    HEADNORM_TRY(const std::vector<Record> records, database.list(&damage));
    report.document["records"] = Json::array();
    report.document["damaged"] = damage_json(damage);
    Table table({"record", ">rows", ">us", ">GB/s", ">x copy", "evidence", "target", "spec"});
    for (const Record& record : records) {
      report.document["records"].push_back(result_json(record));
      table.add({record.id.substr(0, 8), fmt::to_string(record.rows), fmt::format("{:.2f}", record.time.median_us),
                 fmt::format("{:.1f}", record.gb_per_s()), copy_ratio_text(record), to_text(record.evidence),
                 to_text(record.device.target), short_spec(record.spec)});
    }
    report.text = records.empty() ? fmt::format("no records in {}\n", database.directory().string()) : table.render();
    if (!damage.empty()) report.text += fmt::format("{}: 'headnorm db check' says which\n", counted(damage.size(), "damaged file"));
    return report;
  }

  Result<Report> show(Database& database, Report report) const {
    std::vector<Damage> damage;
    HEADNORM_TRY(const std::vector<Record> records, database.list(&damage));
    const Record* found = nullptr;
    for (const Record& record : records) {
      if (!record.id.starts_with(record_)) continue;
      if (found != nullptr)
        return user_error(fmt::format("'{}' begins more than one record: {} and {}", record_, found->id, record.id),
                          "give more digits");
      found = &record;
    }
    if (found == nullptr) return show_damage(database, damage, std::move(report));
    const std::string text = to_json(*found);
    report.document["record"] = Json::parse(text);
    report.text = text;
    return report;
  }

  // A record that is there and cannot be read is a failed check; any other name is a mistake.
  Result<Report> show_damage(const Database& database, const std::vector<Damage>& damage, Report report) const {
    const auto damaged = std::ranges::find_if(
        damage, [&](const Damage& entry) { return std::filesystem::path(entry.file).filename().string().starts_with(record_); });
    if (damaged == damage.end())
      return user_error(fmt::format("no record '{}' in {}", record_, database.directory().string()),
                        "'headnorm db list' lists them");
    report.document["damaged"] = damage_json({*damaged});
    report.exit_code = kExitCheckFailed;
    report.error = environment_error(fmt::format("{} is damaged: {}", damaged->file, damaged->reason),
                                     "delete it: what it held is a miss until it is tuned again");
    return report;
  }

  // Of a damaged table it would be that of what is left, which another process may take for the whole.
  Result<Report> digest(Database& database, Report report) const {
    std::vector<Damage> damage;
    HEADNORM_TRY(const std::vector<Record> records, database.list(&damage));
    report.document["records"] = records.size();
    report.document["damaged"] = damage_json(damage);
    if (!damage.empty()) {
      report.exit_code = kExitCheckFailed;
      report.error = environment_error(fmt::format("{} in {}: there is no digest of the whole table",
                                                   counted(damage.size(), "damaged file"), database.directory().string()),
                                       "'headnorm db check' says which; replace or delete them");
      return report;
    }
    report.document["digest"] = table_digest(records);
    report.text = table_digest(records) + "\n";
    return report;
  }

  // An unfinished merge is listed, but nothing is wrong with it.
  Result<Report> check(Database& database, Report report) const {
    HEADNORM_TRY(const std::vector<Damage> damage, database.check());
    HEADNORM_TRY(const std::vector<Record> records, database.list());
    report.document["records"] = records.size();
    std::vector<Damage> unfinished;
    if (std::optional<Damage> merge = database.unfinished_merge()) unfinished.push_back(*std::move(merge));
    report.document["damaged"] = damage_json(damage);
    report.document["unfinished"] = damage_json(unfinished);
    report.text = fmt::format("{}: {}, {}\n", database.directory().string(), counted(records.size(), "record"),
                              counted(damage.size(), "damaged file"));
    for (const std::vector<Damage>* found : {&damage, &std::as_const(unfinished)}) {
      for (const Damage& entry : *found) report.text += fmt::format("  {}: {}\n", entry.file, entry.reason);
    }
    if (damage.empty()) return report;
    report.exit_code = kExitCheckFailed;
    report.error = environment_error(fmt::format("{} in {}", counted(damage.size(), "damaged file"), database.directory().string()),
                                     "delete them: what they held is a miss until it is tuned again");
    return report;
  }

  DatabaseOption database_;
  CLI::App *list_ = nullptr, *show_ = nullptr, *check_ = nullptr, *digest_ = nullptr, *gc_ = nullptr, *merge_ = nullptr,
           *import_ = nullptr, *diff_ = nullptr, *later_ = nullptr;
  CollectOptions collect_;
  std::string record_, format_;
  std::vector<std::string> others_, files_, pair_;
  bool json_ = false;  // read from the command line as a whole
};

}  // namespace

std::unique_ptr<Verb> make_db_verb() { return std::make_unique<DbVerb>(); }

}  // namespace headnorm::cli
