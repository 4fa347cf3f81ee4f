// ld, st, prefetch and the like: decoding and running.
#include <fmt/format.h>

#include "emulator/machine/memory_forms.h"

namespace headnorm::emulator {

Space take_memory_space(Decoding& d) {
  const std::string_view name =
      d.take_any({"global", "shared", "shared::cta", "shared::cluster", "local", "param", "param::entry", "const"});
  if (name.starts_with("shared")) return Space::shared;
  if (name.starts_with("param")) return Space::param;
  if (name == "global") return Space::global;
  if (name == "local") return Space::local;
  return name == "const" ? Space::constant : Space::generic;
}

Strength take_strength(Decoding& d) {
  const std::string_view order = d.take_any({"volatile", "relaxed", "acquire", "release", "acq_rel", "weak"});
  d.take_any({"cta", "cluster", "gpu", "sys"});
  return order.empty() || order == "weak" ? Strength::weak : Strength::strong;
}

std::size_t take_cache_hints(Decoding& d) {
  d.take("nc");
  d.take_any({"ca", "cg", "cs", "lu", "cv", "wb", "wt"});
  d.take_any({"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate"});
  d.take_any({"L2::evict_normal", "L2::evict_first", "L2::evict_last"});
  d.take_any({"L2::64B", "L2::128B", "L2::256B"});
  return d.take("L2::cache_hint") ? 1 : 0;
}

namespace {

// options: [1] bytes of the registers, [2] whether values are extended by their sign, [3] strength.
// A copy of a size that the compiler knows is one instruction, where memcpy would be called.
template <class T>
std::uint64_t load_as(const std::uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return static_cast<std::uint64_t>(value);
}

std::uint64_t load_value(const std::uint8_t* from, std::uint32_t bytes, bool is_signed) {
  switch (bytes) {
    case 1:
      return is_signed ? load_as<std::int8_t>(from) : load_as<std::uint8_t>(from);
    case 2:
      return is_signed ? load_as<std::int16_t>(from) : load_as<std::uint16_t>(from);
    case 4:
      return is_signed ? load_as<std::int32_t>(from) : load_as<std::uint32_t>(from);
    default:
      return load_as<std::uint64_t>(from);
  }
}

template <class T>
void store_as(std::uint8_t* to, std::uint64_t value) {
  const T narrow = static_cast<T>(value);
  std::memcpy(to, &narrow, sizeof narrow);
}

void store_value(std::uint8_t* to, std::uint32_t bytes, std::uint64_t value) {
  switch (bytes) {
    case 1:
      return store_as<std::uint8_t>(to, value);
    case 2:
      return store_as<std::uint16_t>(to, value);
    case 4:
      return store_as<std::uint32_t>(to, value);
    default:
      return store_as<std::uint64_t>(to, value);
  }
}

Step run_load(Context& context, const Operation& operation, std::uint32_t mask) {
  std::uint64_t addresses[kLanes];
  lane_addresses(context, operation.addresses[0], addresses);
  AccessRequest request{operation.space, 0, std::uint32_t{operation.element_bytes} * operation.elements};
  request.strength = static_cast<Strength>(operation.options[3]);
  request.used = operation.used_bytes;
  const Slot* to = context.launch.kernel.slots.data() + operation.list.first;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    request.address = addresses[lane];
    const std::uint8_t* from = access_bytes(context, operation, lane, request);
    if (from == nullptr) return Step::fault;
    for (std::uint32_t i = 0; i < operation.elements; ++i) {
      if (to[i] == kNoSlot) continue;
      const std::uint64_t value =
          load_value(from + i * operation.element_bytes, operation.element_bytes, operation.options[2] != 0);
      if (operation.options[1] == 8) {
        context.set_wide(to[i], lane, value);
      } else {
        context.set_word(to[i], lane, static_cast<std::uint32_t>(operation.options[1] == 4 ? value : value & 0xffff));
      }
    }
  }
  count_access(context, operation.space, addresses, request.bytes, mask, Access::read);
  if (operation.used_bytes == ~std::uint64_t{0}) return Step::advance;
  for (std::uint32_t i = 0; i < operation.elements; ++i) {
    const bool is_used = (operation.used_bytes >> (i * operation.element_bytes) & 1) != 0;
    if (!is_used && to[i] != kNoSlot) context.warp.defined[to[i]] &= ~mask;
  }
  return Step::advance;
}

Step run_store(Context& context, const Operation& operation, std::uint32_t mask) {
  std::uint64_t addresses[kLanes];
  lane_addresses(context, operation.addresses[0], addresses);
  AccessRequest request{operation.space, 0, std::uint32_t{operation.element_bytes} * operation.elements};
  request.access = Access::write;
  request.strength = static_cast<Strength>(operation.options[3]);
  const Slot* from = context.launch.kernel.slots.data() + operation.list.first;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    request.address = addresses[lane];
    std::uint8_t* to = access_bytes(context, operation, lane, request);
    if (to == nullptr) return Step::fault;
    for (std::uint32_t i = 0; i < operation.elements; ++i) {
      const std::uint64_t value = operation.options[1] == 8 ? context.wide(from[i], lane) : context.word(from[i], lane);
      store_value(to + i * operation.element_bytes, operation.element_bytes, value);
    }
  }
  ++context.launch.progress;
  count_access(context, operation.space, addresses, request.bytes, mask, Access::write);
  return Step::advance;
}

std::uint8_t take_vector(Decoding& d) {
  if (d.take("v2")) return 2;
  if (d.take("v4")) return 4;
  return d.take("v8") ? 8 : 1;
}

// The values of a load or store: operand `values`, addressed by operand `address`.
void decode_access(Decoding& d, std::size_t values, std::size_t address, Access access) {
  d.op.space = take_memory_space(d);
  d.op.options[3] = static_cast<std::uint8_t>(take_strength(d));
  const std::size_t hints = take_cache_hints(d);
  d.op.elements = take_vector(d);
  const Type type = d.type();
  d.op.kind = kind_of(d.op.space);
  d.op.element_bytes = static_cast<std::uint8_t>(size_bytes(type));
  if (type == Type::b128 || type == Type::pred) return d.fail("the type is not supported");
  d.expect_operands(2 + hints, 2 + hints);
  d.address(address, 0);
  if (hints != 0) d.read(2, Type::b64);
  const ptx::Operand& list = d.operand(values);
  std::vector<ptx::Operand> items = list.kind == ptx::Operand::Kind::list ? list.items : std::vector<ptx::Operand>{list};
  if (items.size() != d.op.elements) return d.fail("the number of values is not the vector's");
  std::vector<Slot> slots;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const bool is_used = (d.op.used_bytes >> std::min<std::size_t>(i * d.op.element_bytes, 63) & 1) != 0;
    if (access == Access::write) {
      slots.push_back(d.read_relaxed(items[i], type));
    } else {
      const bool is_sink = items[i].kind == ptx::Operand::Kind::sink;
      slots.push_back(is_used || is_sink ? d.write_relaxed(items[i], type) : d.pass(items[i], type));
    }
    const int bytes = d.register_bytes(items[i], type);
    if (items[i].kind != ptx::Operand::Kind::sink) d.op.options[1] = static_cast<std::uint8_t>(bytes);
  }
  d.op.options[2] = type >= Type::s8 && type <= Type::s64 ? 1 : 0;
  d.op.list = d.add_range(slots);
  d.op.run = access == Access::read ? &run_load : &run_store;
}

void ld(Decoding& d) { decode_access(d, 0, 1, Access::read); }
void st(Decoding& d) { decode_access(d, 1, 0, Access::write); }

Step run_nothing(Context&, const Operation&, std::uint32_t) { return Step::advance; }

// Moves nothing that a kernel can see; its address may lie anywhere.
void prefetch(Decoding& d) {
  take_memory_space(d);
  d.take_any({"L1", "L2", "L2::evict_last", "L2::evict_normal", "tensormap"});
  d.expect_operands(1, 1);
  d.address(0, 0);
  d.op.run = &run_nothing;
}

Step run_policy(Context& context, const Operation& operation, std::uint32_t mask) {
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) != 0) context.set_wide(operation.to, lane, 0);
  }
  return Step::advance;
}

void createpolicy(Decoding& d) {
  if (!d.take("fractional")) return d.fail("only createpolicy.fractional is supported");
  for (const std::string& modifier : d.source().modifiers) {
    if (modifier.starts_with("L2::evict_") || modifier == "L2::evict_unchanged") d.take(modifier);
  }
  d.take("b64");
  d.expect_operands(1, 2);
  d.op.to = d.write(0, Type::b64);
  if (d.operand_count() == 2) d.read(1, Type::f32);
  d.op.run = &run_policy;
}

}  // namespace

const DecoderTable& memory_decoders() {
  static const DecoderTable kTable = {
      {"ld", ld}, {"ldu", ld}, {"st", st}, {"prefetch", prefetch}, {"prefetchu", prefetch}, {"createpolicy", createpolicy}};
  return kTable;
}

}  // namespace headnorm::emulator
