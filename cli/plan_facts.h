// Plan facts: what explain tells about a plan, as JSON: its numbers, its bytes and operations, and its time at best on known
// devices.
#pragma once

#include "cli/device_models.h"
#include "cli/report.h"
#include "core/plan.h"

namespace headnorm::cli {

Json plan_json(const Plan& plan);

struct Work {
  Traffic traffic;
  std::int64_t flops_per_row = 0, reductions_per_row = 0;
};
Result<Work> count_work(const KernelSpec& spec);
Json bytes_json(const Work& work, std::int64_t rows);
Json operations_json(const Work& work, std::int64_t rows);

// The longer of moving the bytes and doing the operations at peak rates, in microseconds.
double roofline_us(const RooflineDevice& device, const Work& work, std::int64_t rows);
Json roofline_json(const std::vector<RooflineDevice>& devices, const Work& work, std::int64_t rows);

}  // namespace headnorm::cli
