// What a sweep program costs, counted from its operations: for explain and for the roofline.
#pragma once

#include "generator/program/program.h"

namespace headnorm::program {

struct RowCost {
  std::int64_t flops = 0;       // f32 operations a row (an fma counts two, conversions and loads none)
  std::int64_t reductions = 0;  // results of reductions a row
};

RowCost count_cost(const Program& program);

}  // namespace headnorm::program
