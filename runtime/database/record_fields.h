// Record fields: the parts of a record that a record file and a tuned table write and read alike.
#pragma once

#include <string>

#include "runtime/database/record.h"
#include "runtime/database/sealed_json.h"

namespace headnorm::record_fields {

// Of what cannot be read, with the remedy.
Error refused(std::string message);

Result<void> read_count(sealed_json::Reader& fields, const char* name, int& count);

sealed_json::Json device_json(const DeviceInfo& device);
Result<DeviceInfo> read_device(const sealed_json::Json& json);

// Field "evidence".
Result<Evidence> read_evidence_kind(sealed_json::Reader& fields);

}  // namespace headnorm::record_fields
