// Loads and stores of one line of a tensor: a line is what a sweep handles at a time, held as one or two f32 vectors.
//
// Two orders of elements. memory: one vector, lanes in memory order. even_odd (bf16 only): two vectors, the even and the odd
// elements: a shift and a mask make them from pairs, where zero-extending takes a shuffle for every vector. Elementwise operations
// and reductions do not care, as long as all operands of a line have the same order.
#pragma once

#include "generator/backend/host/function_builder.h"

namespace headnorm::host {

struct Line {
  llvm::Value* offset = nullptr;  // of the first element within the part or tile, in elements
  LaneOrder order = LaneOrder::memory;
  int elements = 0;        // valid elements; lanes past them are 0 when loaded and untouched when stored
  int lanes = 0;           // of each vector
  std::int64_t first = 0;  // the offset, in straight code

  int vectors() const { return order == LaneOrder::even_odd ? 2 : 1; }
  bool full() const { return elements == lanes * vectors(); }
};

// One or two vectors of `line.lanes` f32, or a scalar that all elements share.
using LineValue = Values;

// Which NaNs can reach a rounding to bf16.
enum class NanInputs : std::uint8_t {
  low_half_clear,  // as every NaN of a bf16: the low half of its f32 bits is 0, and rounding on the bits leaves it a NaN
  any,
};

class LineAccess {
 public:
  LineAccess(FunctionBuilder& builder, NanInputs nan_inputs) : b_(builder), nan_inputs_(nan_inputs) {}

  // `base` addresses the part's first element of a tensor of `dtype`. Any alignment.
  LineValue load(llvm::Value* base, Dtype dtype, const Line& line);
  // From a tensor of `period` elements, to which offsets wrap around. Straight code only.
  LineValue load_repeated(llvm::Value* base, Dtype dtype, const Line& line, std::int64_t period);
  llvm::Value* load_scalar(llvm::Value* address, Dtype dtype);
  llvm::Value* load_scalars(llvm::Value* address, Dtype dtype, int count);

  // Narrowed to `dtype` and back, every vector on its own; and the narrowing alone (16-bit lanes).
  Values narrow(const LineValue& value, Dtype dtype);
  LineValue widen(const Values& narrow, Dtype dtype);

  // `value` is f32 for Dtype::f32, else the result of narrow().
  void store(llvm::Value* base, Dtype dtype, const Line& line, const Values& value, StoreKind kind);

 private:
  llvm::Value* load_vector(llvm::Value* address, llvm::Type* element, const Line& line);
  LineValue split_pairs(llvm::Value* both, Dtype dtype, const Line& line);
  llvm::Value* f32_from_bf16(llvm::Value* bits);
  llvm::Value* f32_from_f16(llvm::Value* bits);
  llvm::Value* bf16_from_f32(llvm::Value* value);
  llvm::Value* f16_from_f32(llvm::Value* value);

  FunctionBuilder& b_;
  NanInputs nan_inputs_;
};

}  // namespace headnorm::host
