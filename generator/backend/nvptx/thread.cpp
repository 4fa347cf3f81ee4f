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

// Where the thread's part lies: all in elements or counts, 64 bits wide, since tensors have more than 2^32 elements.
struct Place {
  llvm::Value* row;
  llvm::Value* part;  // of the row
  llvm::Value* head;  // of the row
};

llvm::Value* special_register(llvm::IRBuilder<>& ir, llvm::Intrinsic::ID id, const char* name) {
  return ir.CreateIntrinsic(id, llvm::ArrayRef<llvm::Type*>{}, {}, nullptr, name);
}

void split_block(const Plan& plan, llvm::IRBuilder<>& ir, Thread& thread) {
  const GpuPlan& shape = plan.gpu();
  const auto slots = static_cast<std::uint32_t>(shape.groups_per_block * plan.parts_per_group);
  const auto lanes = static_cast<std::uint32_t>(shape.lanes);
  thread.index = special_register(ir, llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, "thread");
  thread.lane = ir.CreateAnd(thread.index, lanes - 1, "lane");
  llvm::Value* lane_offset = ir.CreateMul(thread.lane, ir.getInt32(static_cast<std::uint32_t>(shape.vector_elements)));
  thread.lane_offset = ir.CreateZExt(lane_offset, ir.getInt64Ty(), "lane_offset");
  thread.slot = ir.CreateUDiv(thread.index, ir.getInt32(lanes), "slot");
  if (slots * lanes != static_cast<std::uint32_t>(shape.block_threads)) {
    thread.in_slots = ir.CreateICmpULT(thread.slot, ir.getInt32(slots), "in_slots");
    thread.slot = ir.CreateBinaryIntrinsic(llvm::Intrinsic::umin, thread.slot, ir.getInt32(slots - 1), nullptr, "slot");
  }
  thread.local_group = ir.CreateUDiv(thread.slot, ir.getInt32(static_cast<std::uint32_t>(plan.parts_per_group)), "local_group");
}

Place find_place(const Plan& plan, llvm::IRBuilder<>& ir, llvm::Value* rows, Thread& thread) {
  auto i64 = [&](std::int64_t value) { return ir.getInt64(static_cast<std::uint64_t>(value)); };
  auto wide = [&](llvm::Value* value) { return ir.CreateZExt(value, ir.getInt64Ty()); };
  llvm::Value* block = wide(special_register(ir, llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x, "block"));
  llvm::Value* group =
      ir.CreateAdd(ir.CreateMul(block, i64(plan.gpu().groups_per_block)), wide(thread.local_group), "wanted_group");
  llvm::Value* groups = ir.CreateMul(rows, i64(plan.groups_per_row), "groups");
  thread.stores = ir.CreateICmpULT(group, groups, "stores");
  if (thread.in_slots != nullptr) thread.stores = ir.CreateAnd(thread.stores, thread.in_slots, "stores");
  group = ir.CreateBinaryIntrinsic(llvm::Intrinsic::umin, group, ir.CreateSub(groups, i64(1)), nullptr, "group");

  llvm::Value* part_of_group = ir.CreateURem(thread.slot, ir.getInt32(static_cast<std::uint32_t>(plan.parts_per_group)));
  Place place{};
  place.row = ir.CreateUDiv(group, i64(plan.groups_per_row), "row");
  llvm::Value* group_of_row = ir.CreateURem(group, i64(plan.groups_per_row));
  place.part = ir.CreateAdd(ir.CreateMul(group_of_row, i64(plan.parts_per_group)), wide(part_of_group), "part");
  place.head = ir.CreateUDiv(place.part, i64(plan.parts_per_head), "head");
  return place;
}

// Elements from the operand's pointer to the thread's part.
llvm::Value* part_offset(const Plan& plan, llvm::IRBuilder<>& ir, Operand operand, const Place& place, llvm::Value* row_stride) {
  auto i64 = [&](std::int64_t value) { return ir.getInt64(static_cast<std::uint64_t>(value)); };
  if (operand == Operand::gamma && plan.spec.weight == WeightForm::head) return place.head;
  llvm::Value* part = place.part;
  if (operand == Operand::gamma && plan.spec.weight == WeightForm::shared) part = ir.CreateURem(part, i64(plan.parts_per_head));
  llvm::Value* offset = ir.CreateMul(part, i64(plan.part_elements));
  return row_stride == nullptr ? offset : ir.CreateAdd(ir.CreateMul(place.row, row_stride), offset);
}

}  // namespace

Thread build_thread(const Plan& plan, llvm::IRBuilder<>& ir, llvm::Function& kernel) {
  const auto argument = [&](int i) { return kernel.getArg(static_cast<unsigned>(i)); };
  const int pointers = pointer_count(plan.spec), strides = stride_count(plan.spec);
  Thread thread;
  split_block(plan, ir, thread);
  const Place place = find_place(plan, ir, argument(pointers + strides), thread);
  for (Operand operand : kOperands) {
    if (!has_operand(plan.spec, operand)) continue;
    llvm::Value* stride = is_row_operand(operand) ? argument(pointers + stride_index(plan.spec, operand)) : nullptr;
    thread.part[static_cast<std::size_t>(operand)] =
        ir.CreateGEP(element_type(ir, operand_dtype(plan.spec, operand)), argument(pointer_index(plan.spec, operand)),
                     part_offset(plan, ir, operand, place, stride), std::string(to_text(operand)) + "_part");
  }
  return thread;
}

}  // namespace headnorm::nvptx
