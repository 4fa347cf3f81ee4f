// Values that stay in shared memory between the sweeps: every thread reads back its own elements alone, so that no barrier is
// needed.
#pragma once

#include "generator/backend/nvptx/elements.h"

namespace headnorm::nvptx {

class Kept {
 public:
  // Of values with these dtypes, in dynamic shared memory `name`. Error (internal): they are not what the plan has room for.
  static Result<Kept> make(const Plan& plan, llvm::IRBuilder<>& ir, const Thread& thread, const std::string& name,
                           const std::vector<Dtype>& dtypes);

  // A chunk of value number `value`.
  void keep(std::size_t value, const Chunk& chunk, const Elements& elements);
  Elements recall(std::size_t value, const Chunk& chunk);

 private:
  struct Value {
    Dtype dtype;
    std::int64_t begin;  // bytes from the start of the memory
  };

  Kept(const Plan& plan, llvm::IRBuilder<>& ir, const Thread& thread, llvm::Value* memory)
      : plan_(&plan), ir_(&ir), thread_(&thread), memory_(memory) {}
  int unit_elements(Dtype dtype) const;
  llvm::Value* address(const Value& value, const Chunk& chunk, int unit);

  const Plan* plan_;
  llvm::IRBuilder<>* ir_;
  const Thread* thread_;
  llvm::Value* memory_;
  std::vector<Value> values_;
};

}  // namespace headnorm::nvptx
