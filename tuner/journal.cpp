#include "tuner/journal.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <system_error>

namespace headnorm {

using Json = nlohmann::json;

namespace {

constexpr const char* kCrash = "the process ended while it ran";

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
  journal.path_ = database / "journal" / (record_id + ".jsonl");
  journal.read(identity);
  std::error_code error;
  std::filesystem::create_directories(journal.path_.parent_path(), error);
  journal.file_.open(journal.path_, journal.same_identity_ ? std::ios::app : std::ios::trunc);
  if (!journal.file_) {
    *warning = fmt::format("{} cannot be written: this search cannot be continued if it is stopped", journal.path_.string());
  } else {
    // After a torn line the next one begins on its own.
    journal.append(journal.same_identity_ ? "" : dump({{"identity", identity}}));
  }
  return journal;
}

void Journal::read(const std::string& identity) {
  std::ifstream file(path_);
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

void Journal::append(const std::string& line) { file_ << line << '\n' << std::flush; }

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
  file_.close();
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

}  // namespace headnorm
