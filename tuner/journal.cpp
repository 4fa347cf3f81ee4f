#include "tuner/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

namespace headnorm {

using Json = nlohmann::json;

namespace {

constexpr const char* kCrash = "the process ended while it ran";
constexpr std::size_t kLargestBytes = std::size_t{1} << 28;

// Text of a field, or empty.
std::string text_of(const Json& line, const char* key) {
  const auto field = line.find(key);
  return field != line.end() && field->is_string() ? field->get<std::string>() : std::string();
}

// Messages of compilers and drivers need not be UTF-8.
std::string dump(const Json& line) { return line.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

Journal Journal::open(const std::filesystem::path& database, const std::string& record_id, const std::string& identity,
                      std::string* warning) {
  Journal journal;
  journal.name_ = record_id + ".jsonl";
  if (const Result<void> opened = journal.open_files(database, identity); !opened.ok()) {
    journal.file_ = Descriptor();
    journal.entries_.clear();
    *warning = fmt::format("journal/{} cannot be written: this search cannot be continued if it is stopped ({})", journal.name_,
                           opened.error().message);
  }
  return journal;
}

Result<void> Journal::open_files(const std::filesystem::path& database, const std::string& identity) {
  HEADNORM_TRY(const std::optional<Directory> root, Directory::open(AT_FDCWD, database.string(), database, Trust::data));
  if (!root) return environment_error(fmt::format("there is no directory '{}'", database.string()), "create it");
  FileOps ops;
  const int made = ops.make_directory(root->descriptor(), "journal");
  HEADNORM_TRY(directory_, Directory::open(root->descriptor(), "journal", database / "journal", Trust::unlinked));
  if (!directory_) return environment_error(fmt::format("cannot create the directory: {}", errno_text(-made)), "make it writable");
  HEADNORM_TRY(const std::optional<std::string> text, directory_->read(name_, kLargestBytes));
  if (text) read(*text, identity);
  HEADNORM_TRY(file_, directory_->open_to_append(name_));
  if (!same_identity_ && ::ftruncate(file_.get(), 0) != 0)
    return environment_error(fmt::format("cannot empty '{}': {}", name_, errno_text(errno)), "delete it");
  // After a torn line the next one begins on its own.
  append(same_identity_ ? "" : dump({{"identity", identity}}));
  return {};
}

void Journal::read(const std::string& bytes, const std::string& identity) {
  std::istringstream file(bytes);
  std::string text;
  if (!std::getline(file, text)) return;
  const Json header = Json::parse(text, nullptr, false);
  if (!header.is_object() || text_of(header, "identity") != identity) return;
  same_identity_ = true;
  while (std::getline(file, text)) {
    const Json line = Json::parse(text, nullptr, false);
    if (!line.is_object() || text_of(line, "schedule").empty()) continue;
    const std::string schedule = text_of(line, "schedule"), state = text_of(line, "state");
    const auto score = line.find("score");
    if (state == "survived") entries_.erase(schedule);
    if (state == "begun") entries_[schedule] = {0, Rejection{"crash", kCrash}};
    if (state == "rejected") entries_[schedule] = {0, Rejection{text_of(line, "kind"), text_of(line, "message")}};
    if (state == "measured" && score != line.end() && score->is_number()) entries_[schedule] = {score->get<double>(), std::nullopt};
  }
}

void Journal::append(const std::string& line) {
  const std::string text = line + '\n';
  FileOps ops;
  for (std::string_view rest = text; !rest.empty();) {
    const std::int64_t written = ops.write(file_.get(), rest.data(), rest.size());
    if (written <= 0) return;
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

void Journal::begin(const std::string& schedule) { append(dump({{"schedule", schedule}, {"state", "begun"}})); }

void Journal::survive(const std::string& schedule) { append(dump({{"schedule", schedule}, {"state", "survived"}})); }

void Journal::finish(const std::string& schedule, const JournalEntry& entry) {
  Json line = {{"schedule", schedule}};
  if (entry.rejection) {
    line["state"] = "rejected";
    line["kind"] = entry.rejection->kind;
    line["message"] = entry.rejection->message;
  } else {
    line["state"] = "measured";
    line["score"] = entry.score;
  }
  append(dump(line));
}

void Journal::remove() {
  if (!file_.valid()) return;
  FileOps().remove(directory_->descriptor(), name_.c_str());
  file_ = Descriptor();
}

}  // namespace headnorm
