#include "cli/database_option.h"

#include <fmt/format.h>

#include "cli/text_option.h"
#include "runtime/database/layered_database.h"

namespace headnorm::cli {
namespace {

const char* text_or_null(const std::optional<std::string>& text) { return text ? text->c_str() : nullptr; }

// What can be had without a writable database; the reason is said once.
std::unique_ptr<Database> open_without_writing(const std::filesystem::path& directory, const DatabaseOptions& options,
                                               const Context& context, const Error& reason) {
  DatabaseOptions read_only = options;
  read_only.read_only = true;
  Result<std::unique_ptr<Database>> database = Database::open(directory, std::move(read_only));
  print_warning(context, fmt::format("{}; {}", reason.message,
                                     database.ok() ? "what it holds is used, nothing is stored" : "this run works from memory"));
  return database.ok() ? std::move(*database) : nullptr;
}

}  // namespace

void DatabaseOption::declare(CLI::App& command) {
  add_text_option(command, "--db", db, "DIR", "database directory ($HEADNORM_DB, or headnorm in the user's cache)");
}

Result<void> check_database_option(const DatabaseOption& option) {
  if (option.db && option.db->empty()) return user_error("--db is empty", "name a directory with --db");
  return {};
}

Result<std::filesystem::path> database_directory(const DatabaseOption& option, const Environment& environment) {
  HEADNORM_CHECK(check_database_option(option));
  if (option.db) return std::filesystem::path(*option.db);
  if (environment.database) return std::filesystem::path(*environment.database);
  return default_database_directory(text_or_null(environment.xdg_cache_home), text_or_null(environment.home));
}

Result<std::unique_ptr<Database>> open_database(const DatabaseOption& option, const Context& context, DatabaseNeed need) {
  DatabaseOptions options;
  options.read_only = need == DatabaseNeed::read;
  options.warn = [&context](const std::string& text) { print_warning(context, text); };
  const Result<std::filesystem::path> directory = database_directory(option, context.environment);
  if (!directory.ok()) {
    if (need != DatabaseNeed::attempt) return directory.error();
    print_warning(context, directory.error().message + "; this run works from memory");
    return std::unique_ptr<Database>();
  }
  Result<std::unique_ptr<Database>> database = Database::open(*directory, options);
  if (database.ok() || need != DatabaseNeed::attempt || database.error().kind == ErrorKind::internal) return database;
  return open_without_writing(*directory, options, context, database.error());
}

std::shared_ptr<ShippedTables> open_shipped_tables(const Context& context) {
  std::optional<std::filesystem::path> directory = find_shipped_tables();
  if (context.environment.tables) directory = *context.environment.tables;
  if (!directory) return nullptr;
  return std::make_shared<ShippedTables>(*std::move(directory),
                                         [&context](const std::string& text) { print_warning(context, text); });
}

namespace {

std::unique_ptr<Database> with_tables(std::unique_ptr<Database> user, const Context& context) {
  std::shared_ptr<ShippedTables> tables = open_shipped_tables(context);
  if (tables == nullptr) return user;
  return add_shipped_tables(std::move(user), std::move(tables),
                            [&context](const std::string& text) { print_warning(context, text); });
}

}  // namespace

Result<std::unique_ptr<Database>> open_serving_database(const DatabaseOption& option, const Context& context) {
  HEADNORM_TRY(std::unique_ptr<Database> user, open_database(option, context, DatabaseNeed::attempt));
  return with_tables(std::move(user), context);
}

Result<std::unique_ptr<Database>> open_consulted_database(const DatabaseOption& option, const Context& context) {
  HEADNORM_CHECK(check_database_option(option));
  const Result<std::filesystem::path> directory = database_directory(option, context.environment);
  std::error_code failed;
  std::unique_ptr<Database> user;
  if (directory.ok() && (option.db || std::filesystem::exists(*directory, failed))) {
    HEADNORM_TRY(user, open_database(option, context, DatabaseNeed::read));
  }
  return with_tables(std::move(user), context);
}

}  // namespace headnorm::cli
