// Exports: names, order, escapes and numbers of every format, and the way back.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "generator/export/csv.h"
#include "generator/export/format.h"
#include "generator/export/import.h"
#include "tests/exports/samples.h"

namespace headnorm::exports {
namespace {

using headnorm::test::gpu_device;
using headnorm::test::host_device;
using headnorm::test::sample_rows;
using headnorm::test::searched_row;
using headnorm::test::spec_of;

constexpr const char* kTool = "headnorm 0.1.0";

std::vector<File> render(const std::string& format, const std::vector<Row>& rows) {
  const Result<std::vector<File>> files = find_format(format)->render(canonical_rows(rows), kTool);
  EXPECT_TRUE(files.ok()) << files.error().message;
  return files.ok() ? *files : std::vector<File>();
}

std::vector<Row> rows_for(const Format& format) {
  std::vector<Row> rows = sample_rows();
  if (format.gpu_only) std::erase_if(rows, [](const Row& row) { return row.record.device.kind == "host"; });
  return rows;
}

// Every number in it, at any depth.
void expect_finite(const Json& json, const std::string& where) {
  if (json.is_number()) {
    EXPECT_TRUE(std::isfinite(json.get<double>())) << where;
  }
  for (const auto& item : json.items()) {
    if (json.is_structured()) expect_finite(item.value(), where + "/" + item.key());
  }
}

TEST(Export, SameRecordsInAnyOrderMakeTheSameBytes) {
  for (const Format& format : formats()) {
    std::vector<Row> rows = rows_for(format);
    const std::vector<File> files = render(format.name, rows);
    ASSERT_FALSE(files.empty()) << format.name;
    for (unsigned seed = 1; seed <= 5; ++seed) {
      std::mt19937 random(seed);
      std::shuffle(rows.begin(), rows.end(), random);
      const std::vector<File> again = render(format.name, rows);
      ASSERT_EQ(again.size(), files.size()) << format.name;
      for (std::size_t i = 0; i < files.size(); ++i) {
        EXPECT_EQ(again[i].name, files[i].name) << format.name;
        EXPECT_EQ(again[i].bytes, files[i].bytes) << format.name;
      }
    }
  }
}

TEST(Export, NamesHaveNoBlanksAndJsonIsFinite) {
  for (const Format& format : formats()) {
    std::set<std::string> names;
    for (const File& file : render(format.name, rows_for(format))) {
      EXPECT_EQ(file.name.find_first_of(" \t\n\"'\\/"), std::string::npos) << file.name;
      EXPECT_LT(file.name.size(), 250u);
      EXPECT_TRUE(names.insert(file.name).second) << file.name;
      if (!file.name.ends_with(".json")) continue;
      const Json json = Json::parse(file.bytes, nullptr, false);
      ASSERT_FALSE(json.is_discarded()) << file.name;
      expect_finite(json, file.name);
    }
  }
}

// Plain, residual and other kernels of one shape are told apart in every format: by the row, or by the sidecar.
TEST(Export, EveryRowCarriesItsSpec) {
  for (const Format& format : formats()) {
    std::string all;
    for (const File& file : render(format.name, rows_for(format))) all += file.bytes;
    for (const char* part : {"residual=add:bf16", "eps=1e-06"}) {
      std::string escaped;
      for (const char* c = part; *c != '\0'; ++c)
        escaped += (*c == '_' && std::string(format.name) == "markdown" ? "\\" : "") + std::string(1, *c);
      EXPECT_NE(all.find(escaped), std::string::npos) << format.name << " " << part;
    }
  }
}

TEST(Export, KernelsThatDifferNeverShareAName) {
  std::set<std::string> names;
  for (const std::string extra : {"", ",residual=add:bf16", ",residual=inplace:bf16", ",gate=seednorm,seed_heads=16",
                                  ",gate=seednorm,seed_heads=1", ",rounding=llama", ",weight_offset=1", ",mode=safe-range"})
    EXPECT_TRUE(names.insert(kernel_name(spec_of(headnorm::test::kPlainSpec + extra))).second) << extra;
  EXPECT_TRUE(names.insert(kernel_name(spec_of(headnorm::test::kEpsSpec))).second);
  EXPECT_TRUE(names.count("mh_rmsnorm_bf16_H16_D256")) << "the plain one has the plain name";
}

TEST(Export, ColdPolicyStandsForBoth) {
  const KernelSpec spec = spec_of(headnorm::test::kPlainSpec);
  const std::vector<Row> rows = canonical_rows({searched_row(spec, 64, gpu_device(), 5, Evidence::measured, CachePolicy::warm),
                                                searched_row(spec, 64, gpu_device(), 9, Evidence::measured, CachePolicy::cold)});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].record.policy, CachePolicy::cold);
}

// ---- fields of schedules -------------------------------------------------------------------------------------------------------

TEST(ExportFields, EveryScheduleComesBackFromItsValues) {
  for (const DeviceInfo& device : {gpu_device(), host_device()}) {
    const KernelSpec spec = spec_of(headnorm::test::kPlainSpec);
    const std::vector<std::string> schedules = headnorm::test::some_schedules(spec, device.target);
    const Fields fields(schedules);
    std::vector<std::string> names;
    for (const Fields::Field& field : fields.list()) names.push_back(field.name);
    for (const std::string& schedule : schedules) {
      std::vector<std::string> values;
      for (const Value& value : fields.values(schedule)) values.push_back(value_text(value));
      const Result<Schedule> back = schedule_of(names, values, device.target.kind);
      ASSERT_TRUE(back.ok()) << back.error().message;
      EXPECT_EQ(to_text(make_plan(spec, *back, device.target)->schedule), schedule);
    }
  }
}

TEST(ExportFields, FieldsKeepTheOrderOfTheTextsWhateverComesFirst) {
  const std::vector<std::string> texts = {"form=rot,prefetch=none,store=nt",
                                          "form=split,block=4096,prefetch=t1,prefetch_at=read,store=nt"};
  const Fields one(texts), other({texts[1], texts[0]});
  std::vector<std::string> names, others;
  for (const Fields::Field& field : one.list()) names.push_back(field.name);
  for (const Fields::Field& field : other.list()) others.push_back(field.name);
  EXPECT_EQ(names, (std::vector<std::string>{"form", "block", "prefetch", "prefetch_at", "store"}));
  EXPECT_EQ(names, others);
  const std::vector<Value> values = one.values(texts[0]);
  EXPECT_EQ(std::get<std::int64_t>(values[1]), 0);
  EXPECT_EQ(std::get<std::string>(values[3]), "none");
}

// ---- formats -------------------------------------------------------------------------------------------------------------------

TEST(ExportKernelTuner, CacheHasEveryCandidateAndTheWinnerIsTheLeast) {
  const Row row = sample_rows()[0];
  const std::vector<File> files = render("kernel-tuner-cache", {row});
  ASSERT_EQ(files.size(), 2u);
  const std::string& text = files[0].bytes;
  EXPECT_EQ(text.substr(text.size() - 3), "}\n}");
  const Json json = Json::parse(text);
  EXPECT_EQ(json["cache"].size(), row.trials->trials.size());
  std::string best;
  double least = 1e30;
  int failed = 0;
  for (const auto& item : json["cache"].items()) {
    const Json& entry = item.value();
    std::string key;
    for (const Json& name : json["tune_params_keys"]) {
      const Json& value = entry[name.get<std::string>()];
      const Json& allowed = json["tune_params"][name.get<std::string>()];
      EXPECT_NE(std::find(allowed.begin(), allowed.end(), value), allowed.end());
      key += (key.empty() ? "" : ",") + (value.is_string() ? value.get<std::string>() : value.dump());
    }
    EXPECT_EQ(key, item.key());
    EXPECT_EQ(entry.contains("times"), !entry.contains("__error__"));
    if (entry.contains("__error__")) {
      ++failed;
      EXPECT_EQ(entry["__error__"], entry["time"]);
    } else if (entry["time"].get<double>() < least) {
      least = entry["time"].get<double>();
      best = key;
    }
  }
  EXPECT_EQ(failed, 2);
  EXPECT_DOUBLE_EQ(least, row.record.time.median_us / 1e3);
  const Fields fields = fields_of(row);
  std::string winner;
  for (const Value& value : fields.values(to_text(row.record.schedule))) winner += (winner.empty() ? "" : ",") + value_text(value);
  EXPECT_EQ(best, winner);
}

TEST(ExportKernelTuner, WithoutTrialsTheSidecarSaysThatTheSpaceIsNotComplete) {
  Row row = sample_rows()[0];
  EXPECT_TRUE(Json::parse(render("kernel-tuner-cache", {row})[1].bytes)["rows"][0]["complete"].get<bool>());
  row.trials.reset();
  const std::vector<File> files = render("kernel-tuner-cache", {row});
  EXPECT_EQ(Json::parse(files[0].bytes)["cache"].size(), 1u);
  EXPECT_FALSE(Json::parse(files[1].bytes)["rows"][0]["complete"].get<bool>());
}

TEST(ExportT4, FailedResultsHaveAWordInPlaceOfATime) {
  for (const char* format : {"t4", "t4-ktt"}) {
    const bool ktt = std::string(format) == "t4-ktt";
    const Json json = Json::parse(render(format, {sample_rows()[0]})[0].bytes);
    std::set<std::string> kinds;
    for (const Json& result : json["results"]) {
      kinds.insert(result["invalidity"].get<std::string>());
      const bool correct = result["invalidity"] == "correct";
      ASSERT_EQ(result["measurements"].size(), 1u);
      EXPECT_EQ(result["measurements"][0]["value"].is_number(), correct);
      EXPECT_EQ(result["correctness"].get<double>(), correct ? 1 : 0);
      if (ktt) {
        EXPECT_EQ(result["times"]["runtimes"].size(), 1u);
      }
      EXPECT_FALSE(result["configuration"].empty());
      // KTT compares values with those that a program declared, by type as well: numbers are its unsigned integers.
      for (const auto& item : result["configuration"].items())
        EXPECT_TRUE(item.value().is_number_unsigned() || item.value().is_string()) << item.key();
    }
    EXPECT_EQ(kinds, (std::set<std::string>{"correct", "correctness", "compile"})) << format;
  }
}

TEST(ExportTriton, BestConfigurationIsFirstAndNoneIsTwice) {
  const KernelSpec spec = spec_of(headnorm::test::kPlainSpec);
  std::vector<Row> rows;
  for (std::int64_t count : {1, 16, 256}) rows.push_back(searched_row(spec, count, gpu_device(), 5));
  rows[0].record.schedule = *parse_schedule(headnorm::test::some_schedules(spec, gpu_device().target)[0]);
  const std::string text = render("triton", rows)[0].bytes;
  const auto count = [&](const std::string& part) {
    int found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("    _Config("), 2);
  EXPECT_NE(text.find("{1: 1, 16: 0, 256: 0}"), std::string::npos) << text;
}

TEST(ExportMarkdown, CellsDoNotEndEarly) {
  std::string text = render("markdown", sample_rows())[0].bytes;
  EXPECT_NE(text.find("a\\|b"), std::string::npos);
  std::size_t lines = 0;
  for (std::size_t begin = 0; begin < text.size(); ++lines) {
    const std::size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    int bars = 0;
    for (std::size_t i = 0; i < line.size(); ++i) bars += line[i] == '|' && (i == 0 || line[i - 1] != '\\');
    EXPECT_EQ(bars, 11) << line;
    begin = end + 1;
  }
  EXPECT_EQ(lines, sample_rows().size() + 2);
}

TEST(ExportGzip, SameBytesEveryTimeAndBack) {
  std::string text;
  for (int i = 0; i < 50000; ++i) text += std::to_string(i * 7919 % 1000) + ",";
  const std::string packed = *gzipped(text);
  EXPECT_LT(packed.size(), text.size());
  EXPECT_EQ(packed, *gzipped(text));
  EXPECT_EQ(*gunzipped(packed, text.size()), text);
  EXPECT_FALSE(gunzipped(packed, text.size() - 1).ok()) << "more than it may be";
  EXPECT_FALSE(gunzipped(packed.substr(0, packed.size() / 2), text.size()).ok());
  EXPECT_FALSE(gunzipped("no gzip at all", 100).ok());
}

// ---- the way back --------------------------------------------------------------------------------------------------------------

std::string bare_text(Record record) {
  record.kernel = {};
  return to_json(record);
}

TEST(Import, CsvComesBackEqual) {
  const std::vector<Row> rows = canonical_rows(sample_rows());
  const Result<std::vector<MergeEntry>> entries = entries_from_csv(render("csv", rows)[0].bytes);
  ASSERT_TRUE(entries.ok()) << entries.error().message;
  ASSERT_EQ(entries->size(), rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(bare_text((*entries)[i].record), bare_text(rows[i].record));
}

TEST(Import, CacheAndT4ComeBackEqualWithTheirTrials) {
  for (const std::string format : {"kernel-tuner-cache", "t4"}) {
    for (const Row& row : sample_rows()) {
      const std::vector<File> files = render(format, {row});
      const auto entries = format == "t4" ? entries_from_t4(files[0].bytes, files[1].bytes)
                                          : entries_from_kernel_tuner_cache(files[0].bytes, files[1].bytes);
      ASSERT_TRUE(entries.ok()) << format << ": " << entries.error().message;
      ASSERT_EQ(entries->size(), 1u);
      const MergeEntry& entry = entries->front();
      EXPECT_EQ(bare_text(entry.record), bare_text(row.record)) << format;
      ASSERT_EQ(entry.trials.has_value(), row.trials.has_value()) << format;
      if (!entry.trials) continue;
      EXPECT_TRUE(entry.trials->belongs_to(entry.record));
      for (std::size_t i = 0; i < row.trials->trials.size(); ++i) {
        const Trial &back = entry.trials->trials.at(i), &trial = row.trials->trials[i];
        EXPECT_EQ(back.schedule, trial.schedule);
        EXPECT_DOUBLE_EQ(back.time_us, trial.time_us);
        EXPECT_EQ(back.failure.empty(), trial.failure.empty());
        EXPECT_DOUBLE_EQ(back.compile_ms, trial.compile_ms);
      }
    }
  }
}

// Its consumer may have gone on tuning.
TEST(Import, FasterConfigurationInTheFileWins) {
  const Row row = sample_rows()[0];
  const std::vector<File> files = render("kernel-tuner-cache", {row});
  Json json = Json::parse(files[0].bytes);
  std::string faster;
  for (auto& item : json["cache"].items()) {
    if (!item.value().contains("__error__") && item.value()["time"].get<double>() > row.record.time.median_us / 1e3 * 1.01) {
      item.value()["time"] = 0.001;
      item.value()["timestamp"] = "2026-03-04 05:06:07.25+00:00";
      faster = item.key();
      break;
    }
  }
  ASSERT_FALSE(faster.empty());
  const auto entries = entries_from_kernel_tuner_cache(dump(json), files[1].bytes);
  ASSERT_TRUE(entries.ok()) << entries.error().message;
  const Record& record = entries->front().record;
  EXPECT_NE(record.schedule, row.record.schedule);
  EXPECT_DOUBLE_EQ(record.time.median_us, 1.0);
  EXPECT_EQ(record.created, "2026-03-04T05:06:07Z");
  EXPECT_TRUE(is_better(record, row.record));
}

TEST(Import, HostileFilesAreRefused) {
  const Row row = sample_rows()[0];
  const std::vector<File> cache = render("kernel-tuner-cache", {row}), other = render("kernel-tuner-cache", {sample_rows()[2]});
  const auto refuses = [](const std::string& text, const std::string& sidecar) {
    return !entries_from_kernel_tuner_cache(text, sidecar).ok() && !entries_from_t4(text, sidecar).ok();
  };
  const std::string good = cache[0].bytes, meta = cache[1].bytes;
  EXPECT_TRUE(refuses(good.substr(0, good.size() / 2), meta));
  EXPECT_TRUE(refuses(std::string(1 << 20, '['), meta));
  EXPECT_TRUE(refuses("", meta));
  EXPECT_TRUE(refuses("{}", meta));
  EXPECT_TRUE(refuses(good, "{}"));
  EXPECT_TRUE(refuses(good, other[1].bytes)) << "the sidecar of another kernel";
  std::string changed = meta;
  changed.replace(changed.find("\"rows\": 4096"), 12, "\"rows\": 4095");
  EXPECT_TRUE(refuses(good, changed)) << "a record that was changed after it was sealed";
  for (const char* time : {"-1", "0", "1e999", "null", "[]"}) {
    std::string text = good;
    const std::size_t at = text.find("\"time\":0.0"), end = text.find(',', at);
    ASSERT_NE(at, std::string::npos);
    text.replace(at, end - at, std::string("\"time\":") + time);
    EXPECT_FALSE(entries_from_kernel_tuner_cache(text, meta).ok()) << time;
  }
  std::string illegal = good;
  const std::size_t lanes = illegal.find("\"lanes\":", illegal.find("\"cache\""));
  illegal.replace(lanes, std::string("\"lanes\":").size() + 1, "\"lanes\":7");
  EXPECT_FALSE(entries_from_kernel_tuner_cache(illegal, meta).ok()) << "a schedule that is not legal";
}

TEST(Import, CsvErrorsNameTheLine) {
  const std::string good = render("csv", sample_rows())[0].bytes;
  const auto message = [](const std::string& text) {
    const auto entries = entries_from_csv(text);
    return entries.ok() ? std::string("accepted") : entries.error().message;
  };
  EXPECT_NE(message("").find("line 1"), std::string::npos);
  EXPECT_NE(message(good + "1,2\n").find("line 9: 2 cells"), std::string::npos) << message(good + "1,2\n");
  EXPECT_NE(message(good + "\"never closed").find("never closed"), std::string::npos);
  std::string other = good;
  other.replace(other.find("spec"), 4, "what");
  EXPECT_NE(message(other).find("'spec' is missing"), std::string::npos) << message(other);
  std::string changed = good;
  changed.replace(changed.find("width=4096"), 10, "width=2048");
  EXPECT_NE(message(changed).find("line 2"), std::string::npos) << "the id is not that of the changed kernel";
}

}  // namespace
}  // namespace headnorm::exports
