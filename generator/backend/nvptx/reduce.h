// Sums and maxima over the threads of a part or of a group, in an order that
// the plan alone decides.
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

// Replaces each partial_sum by the sum over its partition, the same in every
// thread of it. All threads of the block must be here. The sums share one
// barrier, in shared memory (`name`) of their own. `next`: whether another
// reduction of this block may follow.
enum class Next : std::uint8_t { nothing, reduction };
Result<void> reduce(const Plan& plan, llvm::IRBuilder<>& ir, const Thread& thread, const std::string& name, Next next,
                    std::vector<Sum>& sums);

// With clusters, shared memory of one block is written by the others, when all
// threads of the cluster have said that they are done with what is there: at
// the start of the kernel, and after each reduction that another follows.
// Without clusters, nothing.
void say_done_with_sums(const Plan& plan, llvm::IRBuilder<>& ir);
// Before a block ends after a reduction that another might have followed;
// threads need not be together.
void wait_until_done_with_sums(const Plan& plan, llvm::IRBuilder<>& ir);

// All threads of the block meet.
void meet_in_block(llvm::IRBuilder<>& ir);

}  // namespace headnorm::nvptx
