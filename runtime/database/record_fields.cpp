#include "runtime/database/record_fields.h"

#include <fmt/format.h>

#include <array>
#include <limits>

#include "core/text.h"

namespace headnorm::record_fields {
namespace {

constexpr std::int64_t kMaxCount = std::numeric_limits<int>::max();
constexpr std::int64_t kMaxInteger = std::numeric_limits<std::int64_t>::max();

}  // namespace

using sealed_json::Json;
using sealed_json::Reader;

Error refused(std::string message) {
  return user_error(std::move(message), "delete the record and tune this shape again with this version of headnorm");
}

Result<void> read_count(Reader& fields, const char* name, int& count) {
  HEADNORM_TRY(const std::int64_t value, fields.integer(name, 0, kMaxCount));
  count = static_cast<int>(value);
  return {};
}

Json device_json(const DeviceInfo& device) {
  return {{"kind", device.kind},
          {"id", device.id},
          {"name", device.name},
          {"target", to_text(device.target)},
          {"units", device.units},
          {"memory_bytes", device.memory_bytes},
          {"cache_bytes", device.cache_bytes},
          {"driver", device.driver}};
}

Result<DeviceInfo> read_device(const Json& json) {
  Reader fields(json, "device");
  DeviceInfo device;
  HEADNORM_TRY(device.kind, fields.text("kind"));
  HEADNORM_TRY(device.id, fields.text("id"));
  HEADNORM_TRY(device.name, fields.text("name"));
  HEADNORM_TRY(const std::string target, fields.text("target"));
  HEADNORM_TRY(device.target, parse_target(target));
  // "host" would stand for another target on another machine.
  if (to_text(device.target) != target) return refused(fmt::format("target '{}' is not a canonical text", target));
  HEADNORM_CHECK(read_count(fields, "units", device.units));
  HEADNORM_TRY(device.memory_bytes, fields.integer("memory_bytes", 0, kMaxInteger));
  HEADNORM_TRY(device.cache_bytes, fields.integer("cache_bytes", 0, kMaxInteger));
  HEADNORM_TRY(device.driver, fields.text("driver"));
  HEADNORM_CHECK(fields.finish());
  return device;
}

Result<Evidence> read_evidence_kind(Reader& fields) {
  HEADNORM_TRY(const std::string evidence, fields.text("evidence"));
  return parse_evidence(evidence);
}

}  // namespace headnorm::record_fields
