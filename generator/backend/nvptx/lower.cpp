#include "generator/backend/nvptx/lower.h"

#include <fmt/format.h>

#include <optional>

#include "core/artifact.h"
#include "generator/backend/nvptx/assembly.h"
#include "generator/backend/nvptx/loops.h"
#include "generator/backend/nvptx/target_check.h"
#include "generator/backend/nvptx/tile_body.h"

namespace headnorm::nvptx {

using program::Program;

namespace {

// A kernel: tiles one after the other, and what surrounds them.
class Lowering {
 public:
  Lowering(const Plan& plan, const Program& program, llvm::IRBuilder<>& ir, llvm::Function& kernel)
      : plan_(plan),
        ir_(ir),
        kernel_(kernel),
        thread_(build_thread(plan, ir, kernel)),
        policies_(make_policies(plan, ir)),
        stage_(make_stage()),
        body_(plan, program, ir, kernel, thread_, policies_, stage_ ? &*stage_ : nullptr) {}

  Result<void> run();

 private:
  // What the kernel knows of its place among its tiles; i32 but for `is_there`.
  struct Turn {
    llvm::PHINode* tile = nullptr;
    // Staging: of the tile, its stage and whose turn of its barrier it is; of
    // the tile asked for meanwhile.
    llvm::PHINode *stage = nullptr, *phase = nullptr, *ahead = nullptr;
  };

  std::optional<Stage> make_stage() {
    if (plan_.gpu().stages == 0) return std::nullopt;
    return std::optional<Stage>(std::in_place, plan_, ir_, kernel_.getName().str());
  }
  LaunchForm launch() const { return plan_.gpu_schedule().launch; }
  llvm::Value* i32(int value) { return ir_.getInt32(static_cast<std::uint32_t>(value)); }
  llvm::Value* is_there(llvm::Value* tile);
  llvm::Value* saturating_sum(llvm::Value* a, llvm::Value* b) { return ir_.CreateBinaryIntrinsic(llvm::Intrinsic::uadd_sat, a, b); }

  void follow_previous_kernel();
  void preload_for_tile();
  void copy_tile(llvm::Value* tile, llvm::Value* stage);
  Result<void> lower_once();
  Result<void> lower_persistent();
  // Asks for the first tiles.
  void fill_stages(llvm::Value* first, llvm::Value* stride);
  // Asks for another tile and waits for this one.
  void turn_stages(const Turn& turn);
  void finish_turn(Turn& turn, llvm::Value* stride);
  // Whether all threads of the block meet in a sum once they have read the tile.
  bool meets_after_reading() const {
    const GpuPlan& shape = plan_.gpu();
    return plan_.gpu_schedule().residency == Residency::registers && (shape.over_part.partials > 1 || shape.cluster > 1);
  }

  llvm::BasicBlock* new_block(const std::string& name) { return llvm::BasicBlock::Create(ir_.getContext(), name, &kernel_); }
  // In a block made earlier, to which control comes last.
  void continue_at(llvm::BasicBlock* block) {
    block->moveAfter(&kernel_.back());
    ir_.SetInsertPoint(block);
  }

  const Plan& plan_;
  llvm::IRBuilder<>& ir_;
  llvm::Function& kernel_;
  Thread thread_;
  CachePolicies policies_;
  std::optional<Stage> stage_;
  TileBody body_;
};

llvm::Value* Lowering::is_there(llvm::Value* tile) {
  llvm::Value* rows = kernel_.getArg(static_cast<unsigned>(pointer_count(plan_.spec) + stride_count(plan_.spec)));
  return ir_.CreateICmpULT(first_row(plan_, ir_, tile), rows);
}

// Nothing that the kernel before may write is touched ahead of this. The kernel
// after may start only from here on: it is to wait for this one's end alone,
// whose predecessors have ended by then.
void Lowering::follow_previous_kernel() {
  wait_for_previous_kernel(ir_);
  let_next_kernel_start(ir_);
}

void Lowering::preload_for_tile() {
  if (plan_.gpu_schedule().weights == WeightLoad::before && !plan_.gpu().weights_stay) body_.preload_weights();
}

void Lowering::copy_tile(llvm::Value* tile, llvm::Value* stage) {
  Thread thread = thread_;
  enter_tile(plan_, ir_, kernel_, tile, thread);
  stage_->copy(thread, Memory(plan_, ir_, thread, policies_), stage);
}

Result<void> Lowering::lower_once() {
  llvm::Value* tile = first_tile(plan_, ir_);
  enter_tile(plan_, ir_, kernel_, tile, thread_);
  if (launch() == LaunchForm::weights_ahead) {
    preload_for_tile();
    follow_previous_kernel();
  }
  if (stage_) {
    stage_->copy(thread_, Memory(plan_, ir_, thread_, policies_), i32(0));
    stage_->end_copy();
  }
  if (launch() != LaunchForm::weights_ahead) preload_for_tile();
  if (stage_) {
    stage_->wait(i32(0), i32(0), 0);
    stage_->read_from(thread_, i32(0));
  }
  llvm::BasicBlock* leave = new_block("leave");
  HEADNORM_CHECK(body_.lower(leave));
  continue_at(leave);
  ir_.CreateRetVoid();
  return {};
}

void Lowering::fill_stages(llvm::Value* first, llvm::Value* stride) {
  llvm::Value* tile = first;
  for (int stage = 0; stage < plan_.gpu().stages - 1; ++stage) {
    when(ir_, is_there(tile), "fill", [&] { copy_tile(tile, i32(stage)); });
    stage_->end_copy();
    tile = saturating_sum(tile, stride);
  }
}

// The stage before this tile's is the one that the last tile was read from.
void Lowering::turn_stages(const Turn& turn) {
  const int stages = plan_.gpu().stages;
  if (plan_.gpu_schedule().staging == Staging::bulk && !meets_after_reading()) meet_in_block(ir_);
  when(ir_, is_there(turn.ahead), "ask", [&] {
    llvm::Value* is_first = ir_.CreateICmpEQ(turn.stage, i32(0));
    copy_tile(turn.ahead, ir_.CreateSelect(is_first, i32(stages - 1), ir_.CreateSub(turn.stage, i32(1))));
  });
  stage_->end_copy();
}

void Lowering::finish_turn(Turn& turn, llvm::Value* stride) {
  llvm::BasicBlock* block = ir_.GetInsertBlock();
  turn.tile->addIncoming(ir_.CreateAdd(turn.tile, stride),
                         block);  // at most 2^31 tiles and blocks: within 32 bits
  if (!stage_) return;
  llvm::Value* next = ir_.CreateAdd(turn.stage, i32(1));
  llvm::Value* wraps = ir_.CreateICmpEQ(next, i32(plan_.gpu().stages));
  turn.stage->addIncoming(ir_.CreateSelect(wraps, i32(0), next), block);
  turn.phase->addIncoming(ir_.CreateXor(turn.phase, ir_.CreateZExt(wraps, ir_.getInt32Ty())), block);
  turn.ahead->addIncoming(saturating_sum(turn.ahead, stride), block);
}

// Every thread of a block goes through the same tiles, and every block of a
// cluster, so that all meet at their barriers. A block past the last tile does
// nothing.
Result<void> Lowering::lower_persistent() {
  llvm::Value *first = first_tile(plan_, ir_), *stride = tile_stride(plan_, ir_);
  if (plan_.gpu().weights_stay) body_.preload_weights();
  if (launch() == LaunchForm::weights_ahead) follow_previous_kernel();
  llvm::Value* ahead = first;
  if (stage_) {
    fill_stages(first, stride);
    for (int stage = 0; stage < plan_.gpu().stages - 1; ++stage) ahead = saturating_sum(ahead, stride);
  }
  llvm::BasicBlock *before = ir_.GetInsertBlock(), *head = new_block("tiles"), *body = new_block("tile");
  llvm::BasicBlock *next = new_block("next"), *leave = new_block("leave");
  ir_.CreateBr(head);
  ir_.SetInsertPoint(head);
  const auto value_of_turns = [&](llvm::Value* at_first, const char* name) {
    llvm::PHINode* phi = ir_.CreatePHI(ir_.getInt32Ty(), 2, name);
    phi->addIncoming(at_first, before);
    return phi;
  };
  Turn turn{.tile = value_of_turns(first, "tile")};
  if (stage_) {
    turn.stage = value_of_turns(i32(0), "stage");
    turn.phase = value_of_turns(i32(0), "phase");
    turn.ahead = value_of_turns(ahead, "ahead");
  }
  ir_.CreateCondBr(is_there(turn.tile), body, leave);
  ir_.SetInsertPoint(body);
  if (stage_) turn_stages(turn);
  enter_tile(plan_, ir_, kernel_, turn.tile, thread_);
  preload_for_tile();
  if (stage_) {
    stage_->wait(turn.stage, turn.phase, plan_.gpu().stages - 1);
    stage_->read_from(thread_, turn.stage);
  }
  HEADNORM_CHECK(body_.lower(next));
  continue_at(next);
  finish_turn(turn, stride);
  ir_.CreateBr(head);
  continue_at(leave);
  wait_until_done_with_sums(plan_, ir_);
  ir_.CreateRetVoid();
  return {};
}

Result<void> Lowering::run() {
  if (launch() == LaunchForm::dependent) follow_previous_kernel();
  say_done_with_sums(plan_, ir_);  // nothing is there yet
  if (stage_) stage_->open(thread_);
  return plan_.gpu_schedule().grid == GridForm::persistent ? lower_persistent() : lower_once();
}

llvm::Function& create_kernel(const Plan& plan, llvm::Module& module) {
  llvm::LLVMContext& context = module.getContext();
  const std::vector<Parameter> parameters = launch_parameters(plan.spec);
  std::vector<llvm::Type*> types;
  for (const Parameter& parameter : parameters) {
    types.push_back(parameter.kind == ParameterKind::pointer ? static_cast<llvm::Type*>(llvm::PointerType::get(context, 1))
                                                             : llvm::Type::getInt64Ty(context));
  }
  llvm::Function& kernel = *llvm::Function::Create(llvm::FunctionType::get(llvm::Type::getVoidTy(context), types, false),
                                                   llvm::Function::ExternalLinkage, entry_name(plan), module);
  kernel.setCallingConv(llvm::CallingConv::PTX_Kernel);
  kernel.addFnAttr("nvvm.reqntid", fmt::to_string(plan.gpu().block_threads));
  kernel.addFnAttr("nvvm.minctasm",
                   "1");  // without, ptxas spills a few registers for a block
                          // more on a multiprocessor
  if (plan.gpu().cluster > 1) kernel.addFnAttr("nvvm.cluster_dim", fmt::format("{},1,1", plan.gpu().cluster));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto index = static_cast<unsigned>(i);
    kernel.getArg(index)->setName(parameters[i].name);
    if (parameters[i].kind != ParameterKind::pointer) continue;
    const llvm::Align align(static_cast<std::uint64_t>(operand_access_bytes(plan, parameters[i].operand)));
    kernel.addParamAttr(index, llvm::Attribute::getWithAlignment(context, align));
    if (is_row_operand(parameters[i].operand)) continue;                // may alias one another
    if (plan.gpu_schedule().launch == LaunchForm::dependent) continue;  // may be written until the wait
    kernel.addParamAttr(index, llvm::Attribute::NoAlias);
    kernel.addParamAttr(index, llvm::Attribute::ReadOnly);
  }
  return kernel;
}

}  // namespace

Result<void> lower(const Plan& plan, const Program& program, llvm::Module& module) {
  HEADNORM_CHECK(check_target(plan.target));
  const Program form = program::form_of(plan, program);
  llvm::Function& kernel = create_kernel(plan, module);
  llvm::IRBuilder<> ir(llvm::BasicBlock::Create(module.getContext(), "entry", &kernel));
  return Lowering(plan, form, ir, kernel).run();
}

}  // namespace headnorm::nvptx
