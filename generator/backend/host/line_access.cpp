#include "generator/backend/host/line_access.h"

namespace headnorm::host {
namespace {

llvm::Type* storage_type(FunctionBuilder& b, Dtype dtype) {
  return dtype == Dtype::f32 ? b.getFloatTy() : static_cast<llvm::Type*>(b.getInt16Ty());
}

llvm::Constant* mask_of(FunctionBuilder& b, const Line& line) {
  std::vector<llvm::Constant*> bits;
  for (int lane = 0; lane < line.lanes; ++lane) bits.push_back(b.getInt1(lane < line.elements));
  return llvm::ConstantVector::get(bits);
}

// An integer constant of the shape of `like` (scalar or vector), 32 bits.
llvm::Constant* bits32(FunctionBuilder& b, llvm::Value* like, std::uint32_t value) {
  llvm::Type* type = b.getInt32Ty();
  if (const int lanes = lanes_of(like); lanes > 0) type = b.vector_of(type, lanes);
  return llvm::ConstantInt::get(type, value);
}

llvm::Type* with_lanes_of(FunctionBuilder& b, llvm::Value* like, llvm::Type* element) {
  const int lanes = lanes_of(like);
  return lanes == 0 ? element : static_cast<llvm::Type*>(b.vector_of(element, lanes));
}

}  // namespace

llvm::Value* LineAccess::load_vector(llvm::Value* address, llvm::Type* element, const Line& line) {
  llvm::Type* type = b_.vector_of(element, line.lanes);
  if (line.elements == line.lanes) return b_.CreateAlignedLoad(type, address, llvm::Align(1));
  return b_.CreateMaskedLoad(type, address, llvm::Align(1), mask_of(b_, line), llvm::ConstantAggregateZero::get(type));
}

LineValue LineAccess::load(llvm::Value* base, Dtype dtype, const Line& line) {
  llvm::Value* address = b_.address(base, line.offset, size_bytes(dtype));
  if (line.order == LaneOrder::even_odd) {
    if (dtype == Dtype::bf16) {
      llvm::Value* pairs = b_.CreateAlignedLoad(b_.vector_of(b_.getInt32Ty(), line.lanes), address, llvm::Align(1));
      return {b_.CreateBitCast(b_.CreateShl(pairs, bits32(b_, pairs, 16)), b_.f32(line.lanes)),
              b_.CreateBitCast(b_.CreateAnd(pairs, bits32(b_, pairs, 0xffff0000u)), b_.f32(line.lanes))};
    }
    return split_pairs(b_.CreateAlignedLoad(b_.vector_of(storage_type(b_, dtype), 2 * line.lanes), address, llvm::Align(1)), dtype,
                       line);
  }
  llvm::Value* vector = load_vector(address, storage_type(b_, dtype), line);
  return dtype == Dtype::f32 ? LineValue{vector} : widen({vector}, dtype);
}

// From all elements of a line in memory order, as they are stored, to even and odd ones.
LineValue LineAccess::split_pairs(llvm::Value* both, Dtype dtype, const Line& line) {
  std::vector<int> even, odd;
  for (int lane = 0; lane < line.lanes; ++lane) {
    even.push_back(2 * lane);
    odd.push_back(2 * lane + 1);
  }
  const Values halves = {b_.CreateShuffleVector(both, even), b_.CreateShuffleVector(both, odd)};
  return dtype == Dtype::f32 ? halves : widen(halves, dtype);
}

LineValue LineAccess::load_repeated(llvm::Value* base, Dtype dtype, const Line& line, std::int64_t period) {
  const std::int64_t begin = line.first % period;
  // At most two stretches of the tensor, the second from its start; a shuffle repeats them where the line has more.
  const auto head = static_cast<int>(std::min<std::int64_t>(period - begin, line.elements));
  const auto rest = static_cast<int>(std::min<std::int64_t>(begin, line.elements - head));
  auto stretch = [&](std::int64_t from, int count) {
    llvm::Value* address = b_.address(base, b_.i64(from), size_bytes(dtype));
    return static_cast<llvm::Value*>(b_.CreateAlignedLoad(b_.vector_of(storage_type(b_, dtype), count), address, llvm::Align(1)));
  };
  llvm::Value* first = stretch(begin, head);
  llvm::Value* second = rest > 0 ? stretch(0, rest) : llvm::PoisonValue::get(first->getType());
  const int width = std::max(head, rest), all = line.lanes * line.vectors();
  auto widened = [&](llvm::Value* vector) {
    std::vector<int> lanes(static_cast<std::size_t>(width), llvm::PoisonMaskElem);
    for (int lane = 0; lane < lanes_of(vector); ++lane) lanes[static_cast<std::size_t>(lane)] = lane;
    return b_.CreateShuffleVector(vector, lanes);
  };
  std::vector<int> lanes;
  for (int lane = 0; lane < all; ++lane) {
    const auto element = static_cast<int>((begin + std::min(lane, line.elements - 1)) % period);
    lanes.push_back(element >= begin ? static_cast<int>(element - begin) : width + element);
  }
  llvm::Value* vector = b_.CreateShuffleVector(widened(first), widened(second), lanes);
  if (line.order == LaneOrder::even_odd) return split_pairs(vector, dtype, line);
  return dtype == Dtype::f32 ? LineValue{vector} : widen({vector}, dtype);
}

llvm::Value* LineAccess::load_scalars(llvm::Value* address, Dtype dtype, int count) {
  llvm::Value* values = b_.CreateAlignedLoad(b_.vector_of(storage_type(b_, dtype), count), address, llvm::Align(1));
  return dtype == Dtype::f32 ? values : widen({values}, dtype).front();
}

llvm::Value* LineAccess::load_scalar(llvm::Value* address, Dtype dtype) {
  llvm::Value* value = b_.CreateAlignedLoad(storage_type(b_, dtype), address, llvm::Align(1));
  return dtype == Dtype::f32 ? value : widen({value}, dtype).front();
}

LineValue LineAccess::widen(const Values& narrow, Dtype dtype) {
  LineValue wide;
  for (llvm::Value* bits : narrow) wide.push_back(dtype == Dtype::bf16 ? f32_from_bf16(bits) : f32_from_f16(bits));
  return wide;
}

Values LineAccess::narrow(const LineValue& value, Dtype dtype) {
  if (dtype == Dtype::bf16 && value.size() == 2 && b_.plan().target.has_native_bf16() && lanes_of(value[0]) == 16) {
    // One instruction for both vectors, the even elements in its low half.
    llvm::Value* both =
        b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_cvtne2ps2bf16_512, llvm::ArrayRef<llvm::Type*>{}, {value[1], value[0]});
    llvm::Value* bits = b_.CreateBitCast(both, b_.vector_of(b_.getInt16Ty(), 32));
    std::vector<int> low(16), high(16);
    for (int lane = 0; lane < 16; ++lane) {
      low[static_cast<std::size_t>(lane)] = lane;
      high[static_cast<std::size_t>(lane)] = 16 + lane;
    }
    return {b_.CreateShuffleVector(bits, low), b_.CreateShuffleVector(bits, high)};
  }
  Values result;
  for (llvm::Value* vector : value) result.push_back(dtype == Dtype::bf16 ? bf16_from_f32(vector) : f16_from_f32(vector));
  return result;
}

llvm::Value* LineAccess::f32_from_bf16(llvm::Value* bits) {
  llvm::Value* wide = b_.CreateZExt(bits, with_lanes_of(b_, bits, b_.getInt32Ty()));
  return b_.CreateBitCast(b_.CreateShl(wide, bits32(b_, bits, 16)), b_.f32(lanes_of(bits)));
}

llvm::Value* LineAccess::bf16_from_f32(llvm::Value* value) {
  llvm::Type* i16 = with_lanes_of(b_, value, b_.getInt16Ty());
  if (b_.plan().target.has_native_bf16() && lanes_of(value) >= 4)
    return b_.CreateBitCast(b_.CreateFPTrunc(value, with_lanes_of(b_, value, b_.getBFloatTy())), i16);
  // Round to nearest even on the bits. A NaN whose low half is 0 survives it; others need to be made quiet.
  llvm::Value* bits = b_.CreateBitCast(value, with_lanes_of(b_, value, b_.getInt32Ty()));
  llvm::Value* odd = b_.CreateAnd(b_.CreateLShr(bits, bits32(b_, value, 16)), bits32(b_, value, 1));
  llvm::Value* rounded = b_.CreateAdd(bits, b_.CreateAdd(odd, bits32(b_, value, 0x7fff)));
  if (nan_inputs_ == NanInputs::any)
    rounded = b_.CreateSelect(b_.CreateFCmpUNO(value, value), b_.CreateOr(bits, bits32(b_, value, 0x400000)), rounded);
  return b_.CreateTrunc(b_.CreateLShr(rounded, bits32(b_, value, 16)), i16);
}

llvm::Value* LineAccess::f32_from_f16(llvm::Value* bits) {
  if (b_.plan().target.has_native_f16())
    return b_.CreateFPExt(b_.CreateBitCast(bits, with_lanes_of(b_, bits, b_.getHalfTy())), b_.f32(lanes_of(bits)));
  // Exponent and mantissa as f32 are 2^-112 times too small, subnormals included; infinity and NaN need the full exponent.
  llvm::Value* wide = b_.CreateZExt(bits, with_lanes_of(b_, bits, b_.getInt32Ty()));
  llvm::Value* magnitude = b_.CreateShl(b_.CreateAnd(wide, bits32(b_, bits, 0x7fff)), bits32(b_, bits, 13));
  llvm::Type* f32 = b_.f32(lanes_of(bits));
  llvm::Value* scaled = b_.CreateFMul(b_.CreateBitCast(magnitude, f32), b_.constant(0x1p112, lanes_of(bits)));
  llvm::Value* scaled_bits = b_.CreateBitCast(scaled, wide->getType());
  llvm::Value* special = b_.CreateICmpUGE(magnitude, bits32(b_, bits, 0x0f800000));
  llvm::Value* finite_or_not = b_.CreateSelect(special, b_.CreateOr(magnitude, bits32(b_, bits, 0x7f800000)), scaled_bits);
  llvm::Value* sign = b_.CreateShl(b_.CreateAnd(wide, bits32(b_, bits, 0x8000)), bits32(b_, bits, 16));
  return b_.CreateBitCast(b_.CreateOr(finite_or_not, sign), f32);
}

llvm::Value* LineAccess::f16_from_f32(llvm::Value* value) {
  llvm::Type* i16 = with_lanes_of(b_, value, b_.getInt16Ty());
  if (b_.plan().target.has_native_f16())
    return b_.CreateBitCast(b_.CreateFPTrunc(value, with_lanes_of(b_, value, b_.getHalfTy())), i16);
  llvm::Value* bits = b_.CreateBitCast(value, with_lanes_of(b_, value, b_.getInt32Ty()));
  auto bits_constant = [&](std::uint32_t constant) { return bits32(b_, value, constant); };
  llvm::Value* magnitude = b_.CreateAnd(bits, bits_constant(0x7fffffff));
  // Normal: move the exponent, round to nearest even on the 13 bits that go. May carry into infinity, rightly.
  llvm::Value* odd = b_.CreateAnd(b_.CreateLShr(magnitude, bits_constant(13)), bits_constant(1));
  llvm::Value* moved = b_.CreateAdd(magnitude, bits_constant(0xc8000fffu));  // - 112 << 23, + 0xfff
  llvm::Value* normal = b_.CreateLShr(b_.CreateAdd(moved, odd), bits_constant(13));
  // Subnormal: adding 0.5 leaves multiples of 2^-24 in the low mantissa bits, rounded by the addition.
  llvm::Value* as_float = b_.CreateBitCast(magnitude, value->getType());
  llvm::Value* shifted = b_.CreateFAdd(as_float, b_.constant(0.5, lanes_of(value)));
  llvm::Value* subnormal = b_.CreateSub(b_.CreateBitCast(shifted, bits->getType()), bits_constant(0x3f000000));
  llvm::Value* finite = b_.CreateSelect(b_.CreateICmpULT(magnitude, bits_constant(0x38800000)), subnormal, normal);
  llvm::Value* limited = b_.CreateSelect(b_.CreateICmpUGE(magnitude, bits_constant(0x477ff000)), bits_constant(0x7c00), finite);
  llvm::Value* with_nan = b_.CreateSelect(b_.CreateICmpUGT(magnitude, bits_constant(0x7f800000)), bits_constant(0x7e00), limited);
  llvm::Value* sign = b_.CreateAnd(b_.CreateLShr(bits, bits_constant(16)), bits_constant(0x8000));
  return b_.CreateTrunc(b_.CreateOr(with_nan, sign), i16);
}

void LineAccess::store(llvm::Value* base, Dtype dtype, const Line& line, const Values& value, StoreKind kind) {
  llvm::Value* address = b_.address(base, line.offset, size_bytes(dtype));
  llvm::Value* vector = value.front();
  if (line.order == LaneOrder::even_odd) {
    std::vector<int> interleaved;
    for (int lane = 0; lane < line.lanes; ++lane) {
      interleaved.push_back(lane);
      interleaved.push_back(line.lanes + lane);
    }
    vector = b_.CreateShuffleVector(value[0], value[1], interleaved);
  }
  if (!line.full()) {
    b_.CreateMaskedStore(vector, address, llvm::Align(1), mask_of(b_, line));
    return;
  }
  if (kind == StoreKind::plain) {
    b_.CreateAlignedStore(vector, address, llvm::Align(1));
    return;
  }
  const int bytes = line.elements * size_bytes(dtype);
  if (bytes == 8) vector = b_.CreateBitCast(vector, b_.getInt64Ty());  // the shortest streaming store there is
  llvm::StoreInst* store =
      b_.CreateAlignedStore(vector, address, llvm::Align(static_cast<std::uint64_t>(b_.plan().target.streaming_alignment(bytes))));
  store->setMetadata(llvm::LLVMContext::MD_nontemporal,
                     llvm::MDNode::get(b_.getContext(), llvm::ConstantAsMetadata::get(b_.getInt32(1))));
}

}  // namespace headnorm::host
