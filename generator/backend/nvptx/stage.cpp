#include "generator/backend/nvptx/stage.h"

#include "generator/backend/gpu/plan_terms.h"
#include "generator/backend/nvptx/assembly.h"
#include "generator/backend/nvptx/loops.h"
#include "generator/backend/nvptx/reduce.h"

namespace headnorm::nvptx {
namespace {

constexpr Operand kStaged[] = {Operand::x, Operand::residual};
constexpr int kBarrierBytes = 8;
constexpr int kMaxCopyBytes = 16;  // of a thread's copy

}  // namespace

Stage::Stage(const Plan& plan, llvm::IRBuilder<>& ir, const std::string& name) : plan_(plan), ir_(ir) {
  llvm::Module& module = *ir.GetInsertBlock()->getModule();
  const auto make = [&](llvm::Type* type, llvm::GlobalValue::LinkageTypes linkage, llvm::Constant* initial, const char* suffix) {
    return new llvm::GlobalVariable(module, type, false, linkage, initial, name + suffix, nullptr,
                                    llvm::GlobalValue::NotThreadLocal, 3);
  };
  memory_ = make(llvm::ArrayType::get(ir.getInt8Ty(), 0), llvm::GlobalValue::ExternalLinkage, nullptr, "_stages");
  memory_->setAlignment(llvm::Align(16));
  if (!is_bulk()) return;
  auto* type = llvm::ArrayType::get(ir.getInt64Ty(), static_cast<std::uint64_t>(plan.gpu().stages));
  barriers_ = make(type, llvm::GlobalValue::InternalLinkage, llvm::UndefValue::get(type), "_arrived");
  barriers_->setAlignment(llvm::Align(kBarrierBytes));
}

void Stage::open(const Thread& thread) {
  if (!is_bulk()) return;
  const int parts = plan_.gpu().block_threads / plan_.gpu().lanes;
  when(ir_, ir_.CreateICmpEQ(thread.index, ir_.getInt32(0)), "open_stages", [&] {
    for (int i = 0; i < plan_.gpu().stages; ++i) init_mbarrier(ir_, barrier_of(ir_.getInt32(static_cast<std::uint32_t>(i))), parts);
    show_mbarriers_to_copies(ir_);
  });
  meet_in_block(ir_);
}

llvm::Value* Stage::barrier_of(llvm::Value* number) {
  return ir_.CreateGEP(ir_.getInt64Ty(), barriers_, ir_.CreateZExt(number, ir_.getInt64Ty()));
}

std::int64_t Stage::chunk_bytes(Operand operand) const {
  const GpuPlan& shape = plan_.gpu();
  return std::int64_t{shape.lanes} * shape.vector_elements * size_bytes(operand_dtype(plan_.spec, operand));
}

llvm::Value* Stage::part_room(Operand operand, const Thread& thread, llvm::Value* number) {
  const std::int64_t part = plan_.gpu().chunks * chunk_bytes(operand);
  const auto i32 = [&](std::int64_t value) { return ir_.getInt32(static_cast<std::uint32_t>(value)); };
  llvm::Value* offset = ir_.CreateMul(number, i32(plan_.gpu().stage_bytes));
  offset = ir_.CreateAdd(offset, ir_.CreateMul(thread.own_slot, i32(part)));
  offset = ir_.CreateAdd(offset, i32(stage_offset(plan_, operand)));
  return ir_.CreateGEP(ir_.getInt8Ty(), memory_, ir_.CreateZExt(offset, ir_.getInt64Ty()));
}

llvm::Value* Stage::lane_bytes(Operand operand, const Thread& thread, const Chunk& chunk) {
  const auto i32 = [&](std::int64_t value) { return ir_.getInt32(static_cast<std::uint32_t>(value)); };
  llvm::Value* bytes = ir_.CreateMul(thread.lane, i32(chunk_bytes(operand) / plan_.gpu().lanes));
  if (chunk.first != nullptr) bytes = ir_.CreateAdd(bytes, ir_.CreateMul(chunk.first, i32(chunk_bytes(operand))));
  return ir_.CreateZExt(ir_.CreateAdd(bytes, i32(chunk.more_chunks * chunk_bytes(operand))), ir_.getInt64Ty());
}

// A granule past the end of the part brings what the part begins with, as a
// load does.
void Stage::copy_own(const Thread& thread, const Memory& memory, Operand operand, llvm::Value* room, llvm::Value* policy) {
  const GpuPlan& shape = plan_.gpu();
  const int element_bytes = size_bytes(operand_dtype(plan_.spec, operand));
  const int access = std::min(operand_access_bytes(plan_, operand), kMaxCopyBytes);
  const auto copy = [&](const Chunk& chunk) {
    llvm::Value* to = ir_.CreateGEP(ir_.getInt8Ty(), room, lane_bytes(operand, thread, chunk));
    for (int bytes = 0; bytes < shape.vector_elements * element_bytes; bytes += access)
      copy_async(ir_, ir_.CreateConstGEP1_64(ir_.getInt8Ty(), to, static_cast<std::uint64_t>(bytes)),
                 memory.address(operand, chunk, bytes / element_bytes), access, policy);
  };
  const std::int64_t full = plan_.part_elements / shape.chunk_elements();
  repeat(ir_, full, [&](llvm::Value* turn) {
    copy({.offset = ir_.CreateMul(turn, ir_.getInt64(static_cast<std::uint64_t>(shape.chunk_elements()))),
          .more = 0,
          .inside = {},
          .first = ir_.CreateTrunc(turn, ir_.getInt32Ty()),
          .more_chunks = 0});
  });
  for (std::int64_t chunk = full; chunk < shape.chunks; ++chunk) copy(chunk_of_lane(plan_, ir_, thread, chunk));
}

// Of the block's share of the part's last chunk, where that is not whole: i32.
llvm::Value* Stage::tail_bytes(const Thread& thread, Operand operand) {
  const GpuPlan& shape = plan_.gpu();
  const int element_bytes = size_bytes(operand_dtype(plan_.spec, operand));
  const std::int64_t left = plan_.part_elements % shape.chunk_elements() * element_bytes;
  const auto i32 = [&](std::int64_t value) { return ir_.getInt32(static_cast<std::uint32_t>(value)); };
  if (thread.rank == nullptr) return i32(left);
  llvm::Value* before = ir_.CreateMul(thread.rank, i32(chunk_bytes(operand)));
  llvm::Value* after = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::usub_sat, i32(left), before);
  return ir_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, after, i32(chunk_bytes(operand)), nullptr, "tail_bytes");
}

llvm::Value* Stage::part_bytes(const Thread& thread, Operand operand) {
  const std::int64_t full = plan_.part_elements / plan_.gpu().chunk_elements() * chunk_bytes(operand);
  return ir_.CreateAdd(ir_.getInt32(static_cast<std::uint32_t>(full)), tail_bytes(thread, operand));
}

// A part is one stretch; a block's share of it in a cluster is one of each
// chunk.
void Stage::copy_part(const Thread& thread, Operand operand, llvm::Value* room, llvm::Value* barrier, llvm::Value* policy) {
  const GpuPlan& shape = plan_.gpu();
  llvm::Value* from = thread.part[static_cast<std::size_t>(operand)];
  if (thread.rank == nullptr) return copy_bulk(ir_, room, from, part_bytes(thread, operand), barrier, policy);
  const auto i64 = [&](std::int64_t value) { return ir_.getInt64(static_cast<std::uint64_t>(value)); };
  const std::int64_t stride = shape.cluster * chunk_bytes(operand), full = plan_.part_elements / shape.chunk_elements();
  llvm::Value* share = ir_.CreateMul(ir_.CreateZExt(thread.rank, ir_.getInt64Ty()), i64(chunk_bytes(operand)));
  const auto copy = [&](llvm::Value* chunk, llvm::Value* bytes) {
    llvm::Value* at = ir_.CreateAdd(share, ir_.CreateMul(chunk, i64(stride)));
    copy_bulk(ir_, ir_.CreateGEP(ir_.getInt8Ty(), room, ir_.CreateMul(chunk, i64(chunk_bytes(operand)))),
              ir_.CreateGEP(ir_.getInt8Ty(), from, at), bytes, barrier, policy);
  };
  repeat(ir_, full, [&](llvm::Value* chunk) { copy(chunk, ir_.getInt32(static_cast<std::uint32_t>(chunk_bytes(operand)))); });
  if (shape.exact) return;
  llvm::Value* tail = tail_bytes(thread, operand);
  when(ir_, ir_.CreateICmpNE(tail, ir_.getInt32(0)), "copy_tail", [&] { copy(i64(full), tail); });
}

void Stage::copy(const Thread& thread, const Memory& memory, llvm::Value* number) {
  const auto each = [&](auto&& copy) {
    for (Operand operand : kStaged) {
      if (has_operand(plan_.spec, operand)) copy(operand);
    }
  };
  if (!is_bulk()) {
    each([&](Operand operand) { copy_own(thread, memory, operand, part_room(operand, thread, number), memory.row_policy()); });
    return;
  }
  when(ir_, ir_.CreateICmpEQ(thread.lane, ir_.getInt32(0)), "copy_part", [&] {
    llvm::Value *barrier = barrier_of(number), *bytes = ir_.getInt32(0);
    each([&](Operand operand) { bytes = ir_.CreateAdd(bytes, part_bytes(thread, operand)); });
    arrive_expecting(ir_, barrier, bytes);
    each([&](Operand operand) { copy_part(thread, operand, part_room(operand, thread, number), barrier, memory.row_policy()); });
  });
}

void Stage::end_copy() {
  if (!is_bulk()) commit_async(ir_);
}

void Stage::wait(llvm::Value* number, llvm::Value* phase, int later) {
  if (is_bulk())
    wait_mbarrier(ir_, barrier_of(number), phase);
  else
    wait_async(ir_, later);
}

void Stage::read_from(const Thread& thread, llvm::Value* number) {
  reader_ = &thread;
  for (Operand operand : kStaged) {
    if (has_operand(plan_.spec, operand)) read_room_[static_cast<std::size_t>(operand)] = part_room(operand, thread, number);
  }
}

// With bulk copies nothing is there for a granule past the end: it reads what
// the block's share of the part begins with.
std::vector<llvm::Value*> Stage::fetch(Operand operand, const Chunk& chunk, int access_elements) {
  const Dtype dtype = operand_dtype(plan_.spec, operand);
  const int element_bytes = size_bytes(dtype), bytes = access_elements * element_bytes;
  llvm::Value* lane = lane_bytes(operand, *reader_, chunk);
  std::vector<llvm::Value*> fetched;
  for (int element = 0; element < plan_.gpu().vector_elements; element += access_elements) {
    const int granule = element / gpu::granule_elements(plan_), begin = granule * gpu::granule_elements(plan_);
    llvm::Value* offset = ir_.CreateAdd(lane, ir_.getInt64(static_cast<std::uint64_t>(begin * element_bytes)));
    if (is_bulk() && !chunk.inside.empty())
      offset = ir_.CreateSelect(chunk.inside[static_cast<std::size_t>(granule)], offset, ir_.getInt64(0));
    llvm::Value* base = ir_.CreateGEP(ir_.getInt8Ty(), read_room_[static_cast<std::size_t>(operand)], offset);
    llvm::Value* at = ir_.CreateConstGEP1_64(ir_.getInt8Ty(), base, static_cast<std::uint64_t>((element - begin) * element_bytes));
    fetched.push_back(ir_.CreateAlignedLoad(packed_type(ir_, dtype, access_elements), at,
                                            llvm::Align(static_cast<std::uint64_t>(std::min(bytes, kMaxCopyBytes))),
                                            to_text(operand)));
  }
  return fetched;
}

}  // namespace headnorm::nvptx
