#include "generator/backend/nvptx/elements.h"

#include <algorithm>

#include "generator/backend/gpu/plan_terms.h"
#include "generator/backend/nvptx/assembly.h"

namespace headnorm::nvptx {

using gpu::granule_elements;
using program::Instruction;
using program::Op;

namespace {

llvm::Type* vector_of(llvm::Type* element, std::size_t count) {
  if (count == 1) return element;
  return llvm::FixedVectorType::get(element, static_cast<unsigned>(count));
}

llvm::Value* extract(llvm::IRBuilder<>& ir, llvm::Value* vector, std::size_t i) {
  return vector->getType()->isVectorTy() ? ir.CreateExtractElement(vector, i) : vector;
}

llvm::Value* gather(llvm::IRBuilder<>& ir, const std::vector<llvm::Value*>& values) {
  if (values.size() == 1) return values[0];
  llvm::Value* vector = llvm::PoisonValue::get(vector_of(values[0]->getType(), values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) vector = ir.CreateInsertElement(vector, values[i], i);
  return vector;
}

llvm::Value* pack(llvm::IRBuilder<>& ir, const std::vector<llvm::Value*>& values, Dtype dtype) {
  llvm::Value* vector = gather(ir, values);
  return dtype == Dtype::f32 ? vector : ir.CreateFPTrunc(vector, vector_of(element_type(ir, dtype), values.size()));
}

// bf16 is the upper half of f32: a shift and a mask on pairs take one
// instruction an element, where LLVM's conversion takes two.
void unpack_pair(llvm::IRBuilder<>& ir, llvm::Value* pair, std::vector<llvm::Value*>& values) {
  values.push_back(ir.CreateBitCast(ir.CreateShl(pair, 16), ir.getFloatTy()));
  values.push_back(ir.CreateBitCast(ir.CreateAnd(pair, 0xffff0000u), ir.getFloatTy()));
}

std::vector<llvm::Value*> unpack_bf16(llvm::IRBuilder<>& ir, llvm::Value* packed, std::size_t count) {
  if (count == 1) {
    llvm::Value* bits = ir.CreateZExt(ir.CreateBitCast(packed, ir.getInt16Ty()), ir.getInt32Ty());
    return {ir.CreateBitCast(ir.CreateShl(bits, 16), ir.getFloatTy())};
  }
  std::vector<llvm::Value*> values;
  llvm::Value* pairs = ir.CreateBitCast(packed, vector_of(ir.getInt32Ty(), count / 2));
  for (std::size_t i = 0; i < count / 2; ++i) unpack_pair(ir, extract(ir, pairs, i), values);
  return values;
}

std::vector<llvm::Value*> unpack(llvm::IRBuilder<>& ir, llvm::Value* packed, Dtype dtype, std::size_t count) {
  if (dtype == Dtype::bf16) return unpack_bf16(ir, packed, count);
  std::vector<llvm::Value*> values;
  for (std::size_t i = 0; i < count; ++i) {
    llvm::Value* value = extract(ir, packed, i);
    values.push_back(dtype == Dtype::f32 ? value : ir.CreateFPExt(value, ir.getFloatTy()));
  }
  return values;
}

// Weights that a kernel which is still running may write are not for the
// read-only cache.
Access access_of(const Plan& plan, Operand operand) {
  const bool is_settled = plan.gpu_schedule().launch != LaunchForm::dependent;
  return is_row_operand(operand) || !is_settled ? Access::ordered : Access::read_only;
}

llvm::Value* constant(llvm::IRBuilder<>& ir, double value) { return llvm::ConstantFP::get(ir.getFloatTy(), value); }

// The intrinsics hand NaN on; comparing and selecting would take four
// instructions.
llvm::Value* clamp(llvm::IRBuilder<>& ir, llvm::Value* value, double low, double high) {
  value = ir.CreateBinaryIntrinsic(llvm::Intrinsic::maximum, value, constant(ir, low));
  return ir.CreateBinaryIntrinsic(llvm::Intrinsic::minimum, value, constant(ir, high));
}

// 254 less the exponent field, which is limited to that of numbers from 2^-126
// to 2^126, is the field of the power.
llvm::Value* inverse_power(llvm::IRBuilder<>& ir, llvm::Value* value) {
  llvm::Value* field = ir.CreateAnd(ir.CreateLShr(ir.CreateBitCast(value, ir.getInt32Ty()), 23), 0xff);
  field = ir.CreateBinaryIntrinsic(llvm::Intrinsic::umax, field, ir.getInt32(1));
  field = ir.CreateBinaryIntrinsic(llvm::Intrinsic::umin, field, ir.getInt32(253));
  return ir.CreateBitCast(ir.CreateShl(ir.CreateSub(ir.getInt32(254), field), 23), ir.getFloatTy());
}

}  // namespace

Chunk chunk_of_lane(const Plan& plan, llvm::IRBuilder<>& ir, const Thread& thread, std::int64_t index) {
  const GpuPlan& shape = plan.gpu();
  Chunk chunk{.offset = nullptr, .more = index * shape.chunk_elements(), .inside = {}, .first = nullptr, .more_chunks = index};
  const std::int64_t left = plan.part_elements - chunk.more;
  if (left >= shape.chunk_elements()) return chunk;
  for (int begin = 0; begin < shape.vector_elements; begin += granule_elements(plan)) {
    llvm::Value* limit = ir.getInt32(static_cast<std::uint32_t>(std::max<std::int64_t>(left - begin, 0)));
    chunk.inside.push_back(ir.CreateICmpULT(thread.lane_offset, limit, "inside"));
  }
  return chunk;
}

llvm::Value* compute(llvm::IRBuilder<>& ir, const Instruction& instruction, const std::array<llvm::Value*, 3>& a) {
  switch (instruction.op) {
    case Op::constant:
      return constant(ir, instruction.immediates[0]);
    case Op::add:
      return ir.CreateFAdd(a[0], a[1], instruction.name);
    case Op::sub:
      return ir.CreateFSub(a[0], a[1], instruction.name);
    case Op::mul:
      return ir.CreateFMul(a[0], a[1], instruction.name);
    case Op::div:
      return ir.CreateFDiv(a[0], a[1], instruction.name);
    case Op::fma:
      return ir.CreateIntrinsic(llvm::Intrinsic::fma, {ir.getFloatTy()}, {a[0], a[1], a[2]}, nullptr, instruction.name);
    case Op::abs:
      return ir.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a[0], nullptr, instruction.name);
    case Op::clamp:
      return clamp(ir, a[0], instruction.immediates[0], instruction.immediates[1]);
    case Op::rsqrt:
      return ir.CreateIntrinsic(llvm::Intrinsic::nvvm_rsqrt_approx_f, llvm::ArrayRef<llvm::Type*>{}, {a[0]}, nullptr,
                                instruction.name);
    case Op::inverse_power:
      return inverse_power(ir, a[0]);
    case Op::round_to:
      return unpack(ir, pack(ir, {a[0]}, instruction.dtype), instruction.dtype, 1)[0];
    case Op::load:
    case Op::store:
    case Op::reduce_dot:
    case Op::reduce_max:
      break;  // not elementwise
  }
  return nullptr;
}

// By an intrinsic for pairs of bf16, and one by one else: LLVM takes a vector's
// conversion apart by way of undefined registers.
Elements round_elements(llvm::IRBuilder<>& ir, const Elements& elements, Dtype dtype) {
  Elements result;
  result.rounded_dtype = dtype;
  const std::vector<llvm::Value*>& values = elements.values;
  if (dtype == Dtype::bf16 && values.size() > 1) {
    for (std::size_t i = 0; i < values.size(); i += 2) {
      llvm::Value* pair = ir.CreateIntrinsic(llvm::Intrinsic::nvvm_ff2bf16x2_rn, llvm::ArrayRef<llvm::Type*>{},
                                             {values[i + 1], values[i]});  // the upper half first
      result.rounded.push_back(ir.CreateBitCast(pair, ir.getInt32Ty()));
      unpack_pair(ir, result.rounded.back(), result.values);
    }
    return result;
  }
  for (llvm::Value* value : values) {
    result.rounded.push_back(pack(ir, {value}, dtype));
    result.values.push_back(unpack(ir, result.rounded.back(), dtype, 1)[0]);
  }
  return result;
}

llvm::Value* pack_elements(llvm::IRBuilder<>& ir, const Elements& elements, Dtype dtype, int begin, int end) {
  if (elements.rounded.empty() || elements.rounded_dtype != dtype)
    return pack(ir, {elements.values.begin() + begin, elements.values.begin() + end}, dtype);
  const int unit = static_cast<int>(elements.values.size() / elements.rounded.size());
  if (end - begin >= unit) return gather(ir, {elements.rounded.begin() + begin / unit, elements.rounded.begin() + end / unit});
  llvm::Value* pair = elements.rounded[static_cast<std::size_t>(begin / unit)];
  return ir.CreateTrunc(begin % 2 == 0 ? pair : ir.CreateLShr(pair, 16), ir.getInt16Ty());
}

llvm::Type* packed_type(llvm::IRBuilder<>& ir, Dtype dtype, int count) {
  if (dtype != Dtype::bf16) return vector_of(element_type(ir, dtype), static_cast<std::size_t>(count));
  return count == 1 ? ir.getInt16Ty() : vector_of(ir.getInt32Ty(), static_cast<std::size_t>(count / 2));
}

void unpack_elements(llvm::IRBuilder<>& ir, llvm::Value* packed, Dtype dtype, int count, Elements& elements) {
  for (llvm::Value* value : unpack(ir, packed, dtype, static_cast<std::size_t>(count))) elements.values.push_back(value);
  elements.rounded_dtype = dtype;
  if (dtype == Dtype::bf16 && count == 1) return;  // no pair to store again
  const int units = dtype == Dtype::bf16 ? count / 2 : count;
  for (int i = 0; i < units; ++i) elements.rounded.push_back(extract(ir, packed, static_cast<std::size_t>(i)));
}

CachePolicies make_policies(const Plan& plan, llvm::IRBuilder<>& ir) {
  if (plan.gpu_schedule().cache == CacheUse::plain) return {};
  return {make_policy(ir, Policy::evict_first), make_policy(ir, Policy::evict_last)};
}

int Memory::access_elements(Operand operand) const {
  return operand_access_bytes(plan_, operand) / size_bytes(operand_dtype(plan_.spec, operand));
}

llvm::Value* Memory::place(Operand operand, const Chunk& chunk, int element) const {
  llvm::Type* type = element_type(ir_, operand_dtype(plan_.spec, operand));
  llvm::Value* base = thread_.lane_part[static_cast<std::size_t>(operand)];
  if (chunk.offset != nullptr) base = ir_.CreateGEP(type, base, chunk.offset);
  return ir_.CreateGEP(type, base, ir_.getInt64(static_cast<std::uint64_t>(chunk.more + element)));
}

// A granule past the end is given the address of the part's start, so that no
// branch and no fault comes from loading it.
llvm::Value* Memory::address(Operand operand, const Chunk& chunk, int element) const {
  if (chunk.inside.empty()) return place(operand, chunk, element);
  llvm::Type* type = element_type(ir_, operand_dtype(plan_.spec, operand));
  const int granule = element / granule_elements(plan_), begin = granule * granule_elements(plan_);
  llvm::Value* start = ir_.getInt32(static_cast<std::uint32_t>(chunk.more + begin));
  llvm::Value* offset =
      ir_.CreateSelect(chunk.inside[static_cast<std::size_t>(granule)], start, ir_.CreateNeg(thread_.lane_offset), "offset");
  llvm::Value* base =
      ir_.CreateGEP(type, thread_.lane_part[static_cast<std::size_t>(operand)], ir_.CreateSExt(offset, ir_.getInt64Ty()));
  return ir_.CreateGEP(type, base, ir_.getInt64(static_cast<std::uint64_t>(element - begin)));
}

llvm::Value* Memory::load_at(Operand operand, llvm::Value* address, int count, Reading reading) {
  const Dtype dtype = operand_dtype(plan_.spec, operand);
  const bool is_row = is_row_operand(operand);
  if (llvm::Value* policy = is_row ? policies_.rows : policies_.weights; policy != nullptr && (!is_row || reading == Reading::last))
    return load_with_policy(ir_, packed_type(ir_, dtype, count), address, policy, access_of(plan_, operand));
  // The parameters say which operands are never written: those go through the
  // read-only cache. Loads marked invariant would, too, but LLVM sinks them to
  // their first use, past a reduction that they are to overlap.
  return ir_.CreateAlignedLoad(packed_type(ir_, dtype, count), address,
                               llvm::Align(static_cast<std::uint64_t>(operand_access_bytes(plan_, operand))), to_text(operand));
}

std::vector<llvm::Value*> Memory::fetch(Operand operand, const Chunk& chunk, Reading reading) {
  const int access = access_elements(operand);
  std::vector<llvm::Value*> fetched;
  for (int i = 0; i < plan_.gpu().vector_elements; i += access)
    fetched.push_back(load_at(operand, address(operand, chunk, i), access, reading));
  return fetched;
}

Elements Memory::unpack(Operand operand, const std::vector<llvm::Value*>& fetched) {
  Elements elements;
  for (llvm::Value* packed : fetched)
    unpack_elements(ir_, packed, operand_dtype(plan_.spec, operand), access_elements(operand), elements);
  return elements;
}

llvm::Value* Memory::fetch_of_head(Operand operand) {
  return load_at(operand, thread_.part[static_cast<std::size_t>(operand)], 1, Reading::last);
}

llvm::Value* Memory::unpack_of_head(Operand operand, llvm::Value* fetched) {
  return nvptx::unpack(ir_, fetched, operand_dtype(plan_.spec, operand), 1)[0];
}

void Memory::store(Operand operand, const Chunk& chunk, int granule, const Elements& elements) {
  const Dtype dtype = operand_dtype(plan_.spec, operand);
  const int access = access_elements(operand), begin = granule * granule_elements(plan_);
  for (int i = begin; i < begin + granule_elements(plan_); i += access) {
    llvm::Value* to = place(operand, chunk, i);
    llvm::Value* packed = pack_elements(ir_, elements, dtype, i, i + access);
    if (policies_.rows != nullptr)
      store_with_policy(ir_, packed, to, policies_.rows);
    else
      ir_.CreateAlignedStore(packed, to, llvm::Align(static_cast<std::uint64_t>(operand_access_bytes(plan_, operand))));
  }
}

}  // namespace headnorm::nvptx
