#include "runtime/database/record.h"

#include <fmt/format.h>

#include <array>
#include <limits>

#include "core/digest.h"
#include "core/text.h"
#include "runtime/database/record_fields.h"
#include "runtime/database/sealed_json.h"

namespace headnorm {

const char* to_text(Evidence evidence) {
  constexpr const char* kNames[] = {"measured", "predicted", "emulated"};
  return kNames[static_cast<int>(evidence)];
}

Result<Evidence> parse_evidence(std::string_view text) {
  return text::parse_enum(text, "kind of evidence", std::array{Evidence::measured, Evidence::predicted, Evidence::emulated});
}

const char* to_text(CachePolicy policy) { return policy == CachePolicy::cold ? "cold" : "warm"; }

Result<CachePolicy> parse_cache_policy(std::string_view text) {
  return text::parse_enum(text, "cache policy", std::array{CachePolicy::cold, CachePolicy::warm});
}

std::string record_id(const KernelSpec& spec, std::int64_t rows, const DeviceInfo& device, CachePolicy policy) {
  const Result<KernelSpec> canonical = make_spec(spec);
  return DigestBuilder()
      .add("spec", to_text(canonical.ok() ? *canonical : spec))
      .add("rows", fmt::to_string(rows))
      .add("kind", device.kind)
      .add("name", device.name)
      .add("target", to_text(device.target))
      .add("units", fmt::to_string(device.units))
      .add("policy", to_text(policy))
      .hex()
      .substr(0, kRecordIdDigits);
}

namespace {

using record_fields::device_json;
using record_fields::read_count;
using record_fields::read_device;
using record_fields::refused;
using sealed_json::Json;
using sealed_json::Reader;

constexpr int kFormat = 1;
constexpr std::int64_t kMaxInteger = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kDigestDigits = 64;

Json time_json(const TimeStatistics& time) {
  return {{"median", time.median_us}, {"p20", time.p20_us}, {"p80", time.p80_us}, {"samples", time.samples}};
}

Result<TimeStatistics> read_time(const Json& json) {
  Reader fields(json, "time");
  TimeStatistics time;
  HEADNORM_TRY(time.median_us, fields.number("median"));
  HEADNORM_TRY(time.p20_us, fields.number("p20"));
  HEADNORM_TRY(time.p80_us, fields.number("p80"));
  HEADNORM_CHECK(read_count(fields, "samples", time.samples));
  HEADNORM_CHECK(fields.finish());
  return time;
}

Json candidates_json(const CandidateCounts& counts) {
  Json rejected = Json::object();
  for (const auto& [kind, count] : counts.rejected) rejected[kind] = count;
  return {{"legal", counts.legal}, {"verified", counts.verified}, {"measured", counts.measured}, {"rejected", rejected}};
}

Result<CandidateCounts> read_candidates(const Json& json) {
  Reader fields(json, "candidates");
  CandidateCounts counts;
  HEADNORM_CHECK(read_count(fields, "legal", counts.legal));
  HEADNORM_CHECK(read_count(fields, "verified", counts.verified));
  HEADNORM_CHECK(read_count(fields, "measured", counts.measured));
  HEADNORM_TRY(const Json* rejected, fields.object("rejected"));
  Reader kinds(*rejected, "rejected candidates");
  for (const auto& item : rejected->items()) {
    HEADNORM_CHECK(read_count(kinds, item.key().c_str(), counts.rejected[item.key()]));
  }
  HEADNORM_CHECK(fields.finish());
  return counts;
}

Json kernel_json(const StoredKernel& kernel) {
  if (kernel.sha256.empty()) return nullptr;
  return {{"sha256", kernel.sha256},
          {"kind", to_text(kernel.kind)},
          {"entry", kernel.entry},
          {"key", kernel.key},
          {"backend", kernel.backend}};
}

Result<StoredKernel> read_kernel(const Json& json, const Plan& plan) {
  Reader fields(json, "kernel");
  StoredKernel kernel;
  HEADNORM_TRY(kernel.sha256, fields.hex("sha256", kDigestDigits));
  HEADNORM_TRY(const std::string kind, fields.text("kind"));
  HEADNORM_TRY(kernel.kind,
               text::parse_enum(kind, "kind of kernel", std::array{ArtifactKind::object, ArtifactKind::ptx, ArtifactKind::cubin}));
  HEADNORM_TRY(kernel.entry, fields.text("entry"));
  HEADNORM_TRY(kernel.key, fields.hex("key", kDigestDigits));
  HEADNORM_TRY(kernel.backend, fields.text("backend"));
  HEADNORM_CHECK(fields.finish());
  // A record may come from elsewhere: it must not be able to name the kernel of another plan.
  if (kernel.key != artifact_key(plan, kernel.backend))
    return refused("the key of the kernel is not that of the record's spec, schedule, target and backend");
  return kernel;
}

// What identifies the record and what it says to do.
Result<Plan> read_identity(Reader& fields, Record& record) {
  HEADNORM_TRY(record.id, fields.hex("id", kRecordIdDigits));
  HEADNORM_TRY(const std::string spec, fields.text("spec"));
  HEADNORM_TRY(record.spec, parse_spec(spec));
  HEADNORM_TRY(record.rows, fields.integer("rows", 1, kMaxInteger));
  HEADNORM_TRY(const Json* device, fields.object("device"));
  HEADNORM_TRY(record.device, read_device(*device));
  HEADNORM_TRY(const std::string policy, fields.text("policy"));
  HEADNORM_TRY(record.policy, parse_cache_policy(policy));
  const std::string id = record_id(record.spec, record.rows, record.device, record.policy);
  if (record.id != id) return refused(fmt::format("id {} is not {}, that of its spec, rows, device and policy", record.id, id));
  HEADNORM_TRY(const std::string schedule, fields.text("schedule"));
  HEADNORM_TRY(record.schedule, parse_schedule(schedule, record.device.target.kind));
  HEADNORM_TRY(Plan plan, make_plan(record.spec, record.schedule, record.device.target));
  record.schedule = plan.schedule;
  return plan;
}

Result<void> read_evidence(Reader& fields, Record& record) {
  HEADNORM_TRY(record.evidence, record_fields::read_evidence_kind(fields));
  HEADNORM_TRY(const Json* time, fields.object("time_us"));
  HEADNORM_TRY(record.time, read_time(*time));
  HEADNORM_TRY(record.bytes, fields.integer("bytes", 0, kMaxInteger));
  HEADNORM_TRY(record.copy_ratio, fields.number("copy_ratio"));
  HEADNORM_TRY(const Json* candidates, fields.object("candidates"));
  HEADNORM_TRY(record.candidates, read_candidates(*candidates));
  HEADNORM_TRY(record.search, fields.text("search"));
  HEADNORM_TRY(record.seed, fields.unsigned_integer("seed"));
  HEADNORM_TRY(record.created, fields.text("created"));
  HEADNORM_TRY(record.tool, fields.text("tool"));
  if (fields.has("provenance")) {
    HEADNORM_TRY(record.provenance, fields.text("provenance"));
  }
  return {};
}

}  // namespace

std::string to_json(const Record& record) {
  Json json = {{"format", kFormat},
               {"id", record.id},
               {"spec", to_text(record.spec)},
               {"rows", record.rows},
               {"device", device_json(record.device)},
               {"policy", to_text(record.policy)},
               {"schedule", to_text(record.schedule)},
               {"evidence", to_text(record.evidence)},
               {"time_us", time_json(record.time)},
               {"bytes", record.bytes},
               {"copy_ratio", record.copy_ratio},
               {"candidates", candidates_json(record.candidates)},
               {"search", record.search},
               {"seed", record.seed},
               {"created", record.created},
               {"tool", record.tool},
               {"kernel", kernel_json(record.kernel)}};
  if (!record.provenance.empty()) json["provenance"] = record.provenance;
  return sealed_json::write(std::move(json));
}

Result<Record> record_from_json(std::string_view text) {
  HEADNORM_TRY(const Json json, sealed_json::read(text));
  Reader fields(json, "record");
  HEADNORM_TRY(const std::int64_t format, fields.integer("format", 0, kMaxInteger));
  if (format != kFormat) return refused(fmt::format("format {} of the record is not {}", format, kFormat));
  Record record;
  HEADNORM_TRY(const Plan plan, read_identity(fields, record));
  HEADNORM_CHECK(read_evidence(fields, record));
  HEADNORM_TRY(const Json* kernel, fields.optional("kernel"));
  if (kernel != nullptr) {
    HEADNORM_TRY(record.kernel, read_kernel(*kernel, plan));
  }
  HEADNORM_CHECK(fields.finish());
  return record;
}

}  // namespace headnorm
