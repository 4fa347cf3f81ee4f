#include "generator/backend/nvptx/kept.h"

#include <fmt/format.h>

#include <algorithm>

namespace headnorm::nvptx {

Result<Kept> Kept::make(const Plan& plan, llvm::IRBuilder<>& ir, const Thread& thread, const std::string& name,
                        const std::vector<Dtype>& dtypes) {
  llvm::Module& module = *ir.GetInsertBlock()->getModule();
  auto* memory =
      new llvm::GlobalVariable(module, llvm::ArrayType::get(ir.getInt8Ty(), 0), false, llvm::GlobalValue::ExternalLinkage, nullptr,
                               name, nullptr, llvm::GlobalValue::NotThreadLocal, 3);
  memory->setAlignment(llvm::Align(16));
  Kept kept(plan, ir, thread, memory);
  const GpuPlan& shape = plan.gpu();
  std::int64_t bytes = 0;
  for (Dtype dtype : dtypes) {
    kept.values_.push_back({dtype, bytes});
    bytes += shape.chunks * shape.vector_elements * shape.block_threads * size_bytes(dtype);
  }
  if (bytes != shape.dynamic_shared_bytes)
    return internal_error(
        fmt::format("values between the sweeps take {} bytes, the plan has {}", bytes, shape.dynamic_shared_bytes));
  return kept;
}

// Elements that a thread reads and writes at once, at most 16 bytes.
int Kept::unit_elements(Dtype dtype) const { return std::min(plan_->gpu().vector_elements, 16 / size_bytes(dtype)); }

// Units of neighbouring threads lie side by side: no two threads of a warp meet in a bank.
llvm::Value* Kept::address(const Value& value, const Chunk& chunk, int unit) {
  const GpuPlan& shape = plan_->gpu();
  const std::int64_t unit_bytes = unit_elements(value.dtype) * size_bytes(value.dtype);
  const std::int64_t chunk_bytes = shape.vector_elements * size_bytes(value.dtype) * std::int64_t{shape.block_threads};
  const auto i32 = [&](std::int64_t number) { return ir_->getInt32(static_cast<std::uint32_t>(number)); };
  llvm::Value* offset = ir_->CreateMul(thread_->index, i32(unit_bytes));
  if (chunk.first != nullptr) offset = ir_->CreateAdd(offset, ir_->CreateMul(chunk.first, i32(chunk_bytes)));
  llvm::Value* from = ir_->CreateGEP(ir_->getInt8Ty(), memory_, ir_->CreateZExt(offset, ir_->getInt64Ty()));
  const std::int64_t more = value.begin + chunk.more_chunks * chunk_bytes + unit * unit_bytes * shape.block_threads;
  return ir_->CreateConstGEP1_64(ir_->getInt8Ty(), from, static_cast<std::uint64_t>(more));
}

void Kept::keep(std::size_t value, const Chunk& chunk, const Elements& elements) {
  const Dtype dtype = values_[value].dtype;
  const int unit = unit_elements(dtype);
  for (int begin = 0; begin < plan_->gpu().vector_elements; begin += unit)
    ir_->CreateAlignedStore(pack_elements(*ir_, elements, dtype, begin, begin + unit), address(values_[value], chunk, begin / unit),
                            llvm::Align(static_cast<std::uint64_t>(unit * size_bytes(dtype))));
}

Elements Kept::recall(std::size_t value, const Chunk& chunk) {
  const Dtype dtype = values_[value].dtype;
  const int unit = unit_elements(dtype);
  Elements elements;
  for (int begin = 0; begin < plan_->gpu().vector_elements; begin += unit) {
    llvm::Value* packed = ir_->CreateAlignedLoad(packed_type(*ir_, dtype, unit), address(values_[value], chunk, begin / unit),
                                                 llvm::Align(static_cast<std::uint64_t>(unit * size_bytes(dtype))));
    unpack_elements(*ir_, packed, dtype, unit, elements);
  }
  return elements;
}

}  // namespace headnorm::nvptx
