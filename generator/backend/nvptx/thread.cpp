#include "generator/backend/nvptx/thread.h"

namespace headnorm::nvptx {

llvm::Type* element_type(llvm::IRBuilder<>& ir, Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
      return ir.getFloatTy();
    case Dtype::f16:
      return ir.getHalfTy();
    case Dtype::bf16:
      return ir.getBFloatTy();
  }
  return ir.getFloatTy();
}

namespace {

llvm::Value* special_register(llvm::IRBuilder<>& ir, llvm::Intrinsic::ID id, const char* name) {
  return ir.CreateIntrinsic(id, llvm::ArrayRef<llvm::Type*>{}, {}, nullptr, name);
}

llvm::Value* i32(llvm::IRBuilder<>& ir, std::int64_t value) { return ir.getInt32(static_cast<std::uint32_t>(value)); }
llvm::Value* i64(llvm::IRBuilder<>& ir, std::int64_t value) { return ir.getInt64(static_cast<std::uint64_t>(value)); }
llvm::Value* wide(llvm::IRBuilder<>& ir, llvm::Value* value) { return ir.CreateZExt(value, ir.getInt64Ty()); }

void split_block(const Plan& plan, llvm::IRBuilder<>& ir, Thread& thread) {
  const GpuPlan& shape = plan.gpu();
  const std::int64_t slots = shape.groups_per_block() * plan.parts_per_group;
  thread.index = special_register(ir, llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, "thread");
  thread.lane = ir.CreateAnd(thread.index, i32(ir, shape.lanes - 1), "lane");
  llvm::Value* lane_of_part = thread.lane;
  if (shape.cluster > 1) {  // its blocks are neighbours in x, and their number is a power of two
    llvm::Value* block = special_register(ir, llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x, "block");
    thread.rank = ir.CreateAnd(block, i32(ir, shape.cluster - 1), "rank");
    lane_of_part = ir.CreateAdd(ir.CreateMul(thread.rank, i32(ir, shape.lanes)), thread.lane, "lane_of_part");
  }
  thread.lane_offset = ir.CreateMul(lane_of_part, i32(ir, shape.vector_elements), "lane_offset");
  thread.own_slot = thread.slot = ir.CreateUDiv(thread.index, i32(ir, shape.lanes), "slot");
  if (slots * shape.lanes != shape.block_threads) {
    thread.in_slots = ir.CreateICmpULT(thread.slot, i32(ir, slots), "in_slots");
    thread.slot = ir.CreateBinaryIntrinsic(llvm::Intrinsic::umin, thread.slot, i32(ir, slots - 1), nullptr, "slot");
  }
  thread.local_group = ir.CreateUDiv(thread.slot, i32(ir, plan.parts_per_group), "local_group");
  thread.local_row =
      shape.rows_per_tile == 1 ? i32(ir, 0) : ir.CreateUDiv(thread.local_group, i32(ir, shape.groups_per_tile), "local_row");
}

// The thread's part in its row (i32), given the tile's place in the row.
llvm::Value* part_of_row(const Plan& plan, llvm::IRBuilder<>& ir, const Thread& thread, llvm::Value* tile_of_row) {
  const std::int64_t parts_per_tile = plan.gpu().groups_per_tile * plan.parts_per_group;
  llvm::Value* part = plan.gpu().rows_per_tile == 1 ? thread.slot : ir.CreateURem(thread.slot, i32(ir, parts_per_tile));
  return ir.CreateAdd(ir.CreateMul(tile_of_row, i32(ir, parts_per_tile)), part, "part");
}

// Elements from the operand's row, or from a weight's pointer, to the thread's
// part: i32, a row has at most kMaxWidth.
llvm::Value* part_offset(const Plan& plan, llvm::IRBuilder<>& ir, Operand operand, llvm::Value* part) {
  if (operand == Operand::gamma && plan.spec.weight == WeightForm::head)
    return ir.CreateUDiv(part, i32(ir, plan.parts_per_head), "head");
  if (operand == Operand::gamma && plan.spec.weight == WeightForm::shared) part = ir.CreateURem(part, i32(ir, plan.parts_per_head));
  return ir.CreateMul(part, i32(ir, plan.part_elements));
}

// `row_start`: elements from the operand's pointer to its row (i64), or null.
void find_part(const Plan& plan, llvm::IRBuilder<>& ir, llvm::Function& kernel, Operand operand, llvm::Value* row_start,
               llvm::Value* part, Thread& thread) {
  llvm::Value* pointer = kernel.getArg(static_cast<unsigned>(pointer_index(plan.spec, operand)));
  llvm::Value* offset = part_offset(plan, ir, operand, part);
  const auto address = [&](llvm::Value* of_row, const char* suffix) {
    llvm::Value* index = wide(ir, of_row);
    if (row_start != nullptr) index = ir.CreateAdd(row_start, index);
    // In bytes: of an index in elements that is a sum LLVM makes two additions
    // to the pointer.
    llvm::Value* bytes = ir.CreateMul(index, i64(ir, size_bytes(operand_dtype(plan.spec, operand))));
    return ir.CreateGEP(ir.getInt8Ty(), pointer, bytes, to_text(operand) + std::string(suffix));
  };
  const auto i = static_cast<std::size_t>(operand);
  thread.part[i] = address(offset, "_part");
  thread.lane_part[i] = address(ir.CreateAdd(offset, thread.lane_offset), "_lane");
}

void find_weights(const Plan& plan, llvm::IRBuilder<>& ir, llvm::Function& kernel, llvm::Value* part, Thread& thread) {
  for (Operand operand : kOperands) {
    if (!has_operand(plan.spec, operand) || is_row_operand(operand)) continue;
    find_part(plan, ir, kernel, operand, nullptr, part, thread);
  }
}

}  // namespace

Thread build_thread(const Plan& plan, llvm::IRBuilder<>& ir, llvm::Function& kernel) {
  Thread thread;
  split_block(plan, ir, thread);
  if (plan.gpu().tiles_per_row == 1) find_weights(plan, ir, kernel, part_of_row(plan, ir, thread, ir.getInt32(0)), thread);
  return thread;
}

llvm::Value* first_tile(const Plan& plan, llvm::IRBuilder<>& ir) {
  llvm::Value* block = special_register(ir, llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x, "block");
  return ir.CreateUDiv(block, i32(ir, plan.gpu().cluster));
}

llvm::Value* tile_stride(const Plan& plan, llvm::IRBuilder<>& ir) {
  llvm::Value* blocks = special_register(ir, llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_x, "blocks");
  return ir.CreateUDiv(blocks, i32(ir, plan.gpu().cluster));
}

llvm::Value* first_row(const Plan& plan, llvm::IRBuilder<>& ir, llvm::Value* tile) {
  llvm::Value* tile_row = wide(ir, ir.CreateUDiv(tile, i32(ir, plan.gpu().tiles_per_row)));
  return ir.CreateMul(tile_row, i64(ir, plan.gpu().rows_per_tile), "first_row");
}

void enter_tile(const Plan& plan, llvm::IRBuilder<>& ir, llvm::Function& kernel, llvm::Value* tile, Thread& thread) {
  const auto argument = [&](int i) { return kernel.getArg(static_cast<unsigned>(i)); };
  const int pointers = pointer_count(plan.spec), strides = stride_count(plan.spec);
  llvm::Value* rows = argument(pointers + strides);
  llvm::Value* row = ir.CreateAdd(first_row(plan, ir, tile), wide(ir, thread.local_row), "wanted_row");
  thread.stores = ir.CreateICmpULT(row, rows, "stores");
  // One comparison serves both; the smaller of two numbers would take another.
  row = ir.CreateSelect(thread.stores, row, ir.CreateSub(rows, i64(ir, 1)), "row");
  if (thread.in_slots != nullptr) thread.stores = ir.CreateAnd(thread.stores, thread.in_slots, "stores");

  llvm::Value* tile_of_row = ir.CreateURem(tile, i32(ir, plan.gpu().tiles_per_row));
  llvm::Value* part = part_of_row(plan, ir, thread, tile_of_row);
  if (plan.gpu().tiles_per_row > 1) find_weights(plan, ir, kernel, part, thread);
  for (Operand operand : kOperands) {
    if (!has_operand(plan.spec, operand) || !is_row_operand(operand)) continue;
    llvm::Value* start = ir.CreateMul(row, argument(pointers + stride_index(plan.spec, operand)));
    find_part(plan, ir, kernel, operand, start, part, thread);
  }
}

}  // namespace headnorm::nvptx
