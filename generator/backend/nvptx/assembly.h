// Instructions of PTX that are written as text, since LLVM has no form of them
// that keeps their place among loads and stores: asynchronous copies and their
// barriers, cache policies, and the order of launches; or none that is sure:
// arithmetic of pairs. Addresses in shared memory are of address space 3, in
// global memory of 1.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "generator/backend/llvm/llvm_headers.h"

namespace headnorm::nvptx {

// Waits until the kernels launched before have ended and what they wrote is
// seen; then lets those launched after begin.
void wait_for_previous_kernel(llvm::IRBuilder<>& ir);
void let_next_kernel_start(llvm::IRBuilder<>& ir);

// What L2 is to do with lines: for the `policy` of loads, stores and copies
// (i64; null: as usual).
enum class Policy : std::uint8_t { evict_first, evict_last };
llvm::Value* make_policy(llvm::IRBuilder<>& ir, Policy policy);

enum class Access : std::uint8_t {
  ordered,    // what this kernel, or one that may still run, writes: keeps its
              // place among loads and stores
  read_only,  // never written while the kernel runs
};
// `type` of 2, 4, 8, 16 or 32 bytes; the address is aligned to that.
llvm::Value* load_with_policy(llvm::IRBuilder<>& ir, llvm::Type* type, llvm::Value* address, llvm::Value* policy, Access access);
void store_with_policy(llvm::IRBuilder<>& ir, llvm::Value* value, llvm::Value* address, llvm::Value* policy);

// Copies of 4, 8 or 16 bytes by this thread, in groups: once at most `pending`
// groups are under way, this thread may read the others.
void copy_async(llvm::IRBuilder<>& ir, llvm::Value* to, llvm::Value* from, int bytes, llvm::Value* policy);
void commit_async(llvm::IRBuilder<>& ir);
void wait_async(llvm::IRBuilder<>& ir, int pending);

// Copies of a multiple of 16 bytes (i32) by the copy engine, which end at an
// mbarrier that was told of their bytes. Threads that have waited for the
// barrier's phase (i32, 0 or 1 in turn) may read them.
void copy_bulk(llvm::IRBuilder<>& ir, llvm::Value* to, llvm::Value* from, llvm::Value* bytes, llvm::Value* mbarrier,
               llvm::Value* policy);
void init_mbarrier(llvm::IRBuilder<>& ir, llvm::Value* mbarrier, int arrivals);
void show_mbarriers_to_copies(llvm::IRBuilder<>& ir);
void arrive_expecting(llvm::IRBuilder<>& ir, llvm::Value* mbarrier, llvm::Value* bytes);
void wait_mbarrier(llvm::IRBuilder<>& ir, llvm::Value* mbarrier, llvm::Value* phase);

// Two f32 in a register of 64 bits (i64), the first in its lower half, and what is computed of such pairs: `operation` is add, mul
// or fma, to nearest.
llvm::Value* join_pair(llvm::IRBuilder<>& ir, llvm::Value* first, llvm::Value* second);
std::array<llvm::Value*, 2> split_pair(llvm::IRBuilder<>& ir, llvm::Value* pair);
llvm::Value* compute_packed(llvm::IRBuilder<>& ir, const std::string& operation, const std::vector<llvm::Value*>& pairs);

}  // namespace headnorm::nvptx
