#include "tuning_db/maker/table_maker.h"

#include <fmt/format.h>

#include <cctype>
#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "cli/reference.h"
#include "core/digest.h"
#include "generator/generator.h"
#include "runtime/database/shipped_tables.h"
#include "runtime/database/tuned_table.h"
#include "tuner/host_copy.h"
#include "tuner/predicted_search.h"
#include "tuner/search_space.h"
#include "tuner/tuner.h"

namespace headnorm::tables {
namespace {

const std::string kTool = std::string("headnorm ") + HEADNORM_VERSION;

// The host device as one of less instructions: records are then of that target.
class RestrictedHost final : public Device {
 public:
  RestrictedHost(std::unique_ptr<Device> device, HostIsa isa) : device_(std::move(device)), info_(device_->info()) {
    info_.target = make_host_target(isa);
  }

  const DeviceInfo& info() const override { return info_; }
  Result<Buffer> allocate(std::size_t bytes) override { return device_->allocate(bytes); }
  Result<void> copy_in(void* to, const void* from, std::size_t bytes) override { return device_->copy_in(to, from, bytes); }
  Result<void> copy_out(void* to, const void* from, std::size_t bytes) override { return device_->copy_out(to, from, bytes); }
  Result<std::shared_ptr<const LoadedKernel>> load(const Artifact& artifact, const Plan& plan) override {
    return device_->load(artifact, plan);
  }
  Result<void> launch(const LoadedKernel& kernel, const LaunchArguments& arguments) override {
    return device_->launch(kernel, arguments);
  }
  Result<void> synchronize() override { return device_->synchronize(); }
  Result<double> measure_us(const LoadedKernel& kernel, const LaunchArguments& arguments) override {
    return device_->measure_us(kernel, arguments);
  }

 private:
  std::unique_ptr<Device> device_;
  DeviceInfo info_;
};

// A directory for a search's database, which goes with it.
class Scratch {
 public:
  static Result<std::unique_ptr<Scratch>> make() {
    std::error_code failed;
    std::string pattern = (std::filesystem::temp_directory_path(failed) / "headnorm-tables-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
      return environment_error("no temporary directory", "make room in the directory that TMPDIR names");
    return std::unique_ptr<Scratch>(new Scratch(pattern));
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  explicit Scratch(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

double seconds_now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double short_number(double value, const char* format) {
  return std::strtod(fmt::format(fmt::runtime(format), value).c_str(), nullptr);
}

// What a table keeps of a measured record: times to what can be told apart, nothing of this run alone.
void shorten(Record& record) {
  for (double* time : {&record.time.median_us, &record.time.p20_us, &record.time.p80_us}) *time = short_number(*time, "{:.4g}");
  record.copy_ratio = short_number(record.copy_ratio, "{:.3f}");
  record.created = record.created.substr(0, 10);  // the day
}

// Specs whose searches stand for all: a plain one, one with everything on top, one with parts too wide for a block's registers,
// and one with a third sweep.
constexpr const char* kDigestSpecs[] = {
    "width=1024,head_size=256",
    "width=768,head_size=96,residual=add:bf16,gate=seednorm",
    "width=32768,head_size=32768,x=f16,y=f16,weight=channel:f16",
    "width=1024,head_size=128,x=f32,y=f32,weight=channel:f32,mode=safe-range",
};
constexpr std::int64_t kDigestRows[] = {64, 16384};

// Schedules, and the times of a sample of them.
std::string describe(std::span<const Plan> plans, const GpuModel& model) {
  constexpr std::size_t kStride = 8;
  std::string text;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    text += to_text(plans[i].schedule);
    text += '\n';
    if (i % kStride != 0) continue;
    const TileCounts counts = count_tile(plans[i]);
    for (const std::int64_t rows : kDigestRows) text += fmt::format("{:.4g}\n", predict(plans[i], counts, rows, model).time_us);
  }
  return text;
}

}  // namespace

Result<std::string> make_predicted_table(const GpuModel& model, std::span<const ShippedShape> shapes, const Progress& progress) {
  std::vector<Record> records;
  const std::string digest = search_digest(model);
  for (const ShippedShape& shape : shapes) {
    if (progress) progress(fmt::format("{}: {}", model.slug, to_text(shape.spec)));
    PredictedSearchOptions options;
    options.tool = kTool;
    PredictedSearch search(shape.spec, model, options);
    for (const std::int64_t rows : shape.rows) {
      HEADNORM_TRY(records.emplace_back(), search.run(rows));
      records.back().provenance += "; search " + digest;
    }
  }
  return table_to_json(records);
}

Result<std::string> make_measured_table(HostIsa isa, std::span<const ShippedShape> shapes, const MeasuredTableOptions& options,
                                        const Progress& progress) {
  const Target target = make_host_target(isa);
  if (!host_supports(isa))
    return environment_error(fmt::format("this machine does not run {}", to_text(target)), "measure the table on one that does");
  HEADNORM_TRY(std::unique_ptr<Device> host, make_host_device(options.threads));
  RestrictedHost device(std::move(host), isa);
  HEADNORM_TRY(const std::unique_ptr<Scratch> scratch, Scratch::make());
  HEADNORM_TRY(const std::unique_ptr<Database> database, Database::open(scratch->path()));
  const std::unique_ptr<CodegenBackend> backend = make_llvm_backend();
  std::vector<Record> records;
  for (const ShippedShape& shape : shapes) {
    if (progress) progress(fmt::format("{}: {}", to_text(target), to_text(shape.spec)));
    HEADNORM_TRY(const Reference reference, cli::make_reference(shape.spec));
    TuneServices services{device, *backend, *database, reference, {}, seconds_now, {}, {}, {}};
    services.make_copy = [&](std::int64_t bytes) { return make_host_copy(device.info(), CachePolicy::cold, bytes); };
    TuneRequest request;
    request.spec = shape.spec;
    request.rows = shape.rows;
    request.budget_s = options.budget_s * static_cast<double>(shape.rows.size());
    request.tool = kTool;
    HEADNORM_TRY(const TuneReport report, tune(request, services));
    for (const TunedRow& row : report.results) {
      records.push_back(row.record);
      shorten(records.back());
    }
  }
  // Of one day and one wording, though the search may have passed midnight.
  for (Record& record : records) {
    record.created = records.front().created;
    record.provenance = options.circumstances;
  }
  return table_to_json(records);
}

std::string search_digest(const GpuModel& model) {
  constexpr std::size_t kDigits = 8;
  std::string text;
  for (const char* spec : kDigestSpecs) {
    const Result<SearchSpace> space = build_search_space(*parse_spec(spec), model.target);
    if (!space.ok()) continue;
    text += describe(space->plans, model) + describe(refine(space->plans.front()), model);
  }
  // And what is chosen among them.
  PredictedSearch search(*parse_spec(kDigestSpecs[0]), model, {});
  for (const std::int64_t rows : kDigestRows) {
    const Result<Record> best = search.run(rows);
    if (best.ok()) text += to_text(best->schedule) + "\n";
  }
  return sha256_hex(text).substr(0, kDigits);
}

std::string table_file_name(const Target& target, const std::string& device) {
  std::string slug;
  for (const char c : device) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      slug += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!slug.empty() && slug.back() != '-')
      slug += '-';
  }
  while (!slug.empty() && slug.back() == '-') slug.pop_back();
  return fmt::format("{}.{}.json", table_family(target), slug);
}

}  // namespace headnorm::tables
