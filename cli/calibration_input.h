// Calibration input: measured times of GPU kernels out of a database or a CSV file.
#pragma once

#include <string>
#include <vector>

#include "runtime/database/record.h"
#include "tuner/cost_model/calibration.h"

namespace headnorm::cli {

// The measured records of this device, by name.
std::vector<MeasuredTime> measured_times(const std::vector<Record>& records, const GpuModel& model);

// A table whose first line names its columns, among them spec, rows, schedule and time_us (or median_us); a column `evidence`, if
// there is one, must say measured for a line to count, and a column `device_name` this device's name. Fields with commas stand in
// quotes, and a quote in them is doubled. Error (user): with the line, what is wrong with it.
Result<std::vector<MeasuredTime>> times_from_csv(const std::string& text, const GpuModel& model);

}  // namespace headnorm::cli
