// Sums and maxima over the threads of a part or of a group, in an order that the plan alone decides.
#pragma once

#include <string>
#include <vector>

#include "generator/backend/nvptx/thread.h"
#include "generator/program/program.h"

namespace headnorm::nvptx {

struct Sum {
  program::Domain domain;    // head or seed: the partition summed over
  llvm::Value* partial_sum;  // f32, of this thread
  std::string name;
  program::Op op = program::Op::reduce_dot;
};

// Two partial results of a reduction as one.
llvm::Value* combine(llvm::IRBuilder<>& ir, const Sum& sum, llvm::Value* a, llvm::Value* b);

// Replaces each partial_sum by the sum over its partition, the same in every thread of it. All threads of the block must be here.
// The sums share one barrier, in shared memory (`name`) of their own.
Result<void> reduce(const Plan& plan, llvm::IRBuilder<>& ir, const Thread& thread, const std::string& name, std::vector<Sum>& sums);

}  // namespace headnorm::nvptx
