// FunctionBuilder: an IRBuilder for one host kernel, with loops and the f32 arithmetic that programs need at any vector width.
#pragma once

#include <functional>
#include <vector>

#include "core/plan.h"
#include "generator/backend/llvm/llvm_headers.h"

namespace headnorm::host {

using Values = std::vector<llvm::Value*>;

class FunctionBuilder : public llvm::IRBuilder<> {
 public:
  // Creates the function `name` of type HostKernel in `module` and stands in its entry block.
  FunctionBuilder(llvm::Module& module, const std::string& name, const Plan& plan);

  llvm::Function* function() const { return function_; }
  const Plan& plan() const { return plan_; }

  llvm::Value* i64(std::int64_t value) { return getInt64(static_cast<std::uint64_t>(value)); }
  llvm::FixedVectorType* vector_of(llvm::Type* element, int count) {
    return llvm::FixedVectorType::get(element, static_cast<unsigned>(count));
  }
  // f32 or <count x f32>; count 0 is the scalar.
  llvm::Type* f32(int count) { return count == 0 ? getFloatTy() : static_cast<llvm::Type*>(vector_of(getFloatTy(), count)); }
  llvm::Value* constant(double value, int count) { return llvm::ConstantFP::get(f32(count), value); }
  llvm::Value* splat(llvm::Value* scalar, int count) {
    return count == 0 ? scalar : CreateVectorSplat(static_cast<unsigned>(count), scalar);
  }

  // base + index * size bytes
  llvm::Value* address(llvm::Value* base, llvm::Value* index, std::int64_t size) {
    return CreatePtrAdd(base, CreateMul(index, i64(size), "", true, true));
  }

  // for (i = begin; i < end; i += step) carried = body(i, carried). Nothing runs if begin >= end. Returns the carried values after
  // it.
  using LoopBody = std::function<Values(llvm::Value* index, const Values& carried)>;
  Values loop(const char* name, llvm::Value* begin, llvm::Value* end, std::int64_t step, const Values& initial,
              const LoopBody& body);
  void loop(const char* name, llvm::Value* begin, llvm::Value* end, std::int64_t step,
            const std::function<void(llvm::Value*)>& body);

  // a * b + c with one rounding; a target without such an instruction rounds the product too.
  llvm::Value* fma(llvm::Value* a, llvm::Value* b, llvm::Value* c);
  llvm::Value* clamp(llvm::Value* a, double low, double high);
  llvm::Value* rsqrt(llvm::Value* a);                   // in the schedule's form
  llvm::Value* larger(llvm::Value* a, llvm::Value* b);  // b where one of them is NaN
  llvm::Value* inverse_power(llvm::Value* a);
  // All lanes of a vector combined by `combine`, halving it each time.
  using Combine = std::function<llvm::Value*(llvm::Value*, llvm::Value*)>;
  llvm::Value* reduce_lanes(llvm::Value* vector, const Combine& combine);

 private:
  llvm::Value* newton_rsqrt(llvm::Value* a);

  const Plan& plan_;
  llvm::Function* function_;
};

// Number of lanes of a value, 0 for a scalar.
int lanes_of(llvm::Value* value);

}  // namespace headnorm::host
