// Decoding of what moves, selects and compares values, and of addresses between spaces.
#include "emulator/machine/alu.h"
#include "emulator/machine/decoding.h"
#include "emulator/machine/lanes.h"
#include "emulator/machine/type_dispatch.h"

namespace headnorm::emulator {
namespace {

// Values that are only moved may be undefined: the result is then, too.
void copy_defined(const Context& context, Slot to, std::uint32_t defined, std::uint32_t mask) {
  std::uint32_t& lanes = context.warp.defined[to];
  lanes = (lanes & ~mask) | (defined & mask);
}

template <class S>
Step run_move(Context& context, const Operation& operation, std::uint32_t mask) {
  S values[kLanes];
  std::memcpy(values, context.slot(operation.from[0]), sizeof values);
  store_lanes(context.slot(operation.to), values, mask);
  copy_defined(context, operation.to, context.warp.defined[operation.from[0]], mask);
  return Step::advance;
}

Step run_move_mask(Context& context, const Operation& operation, std::uint32_t mask) {
  context.set_mask(operation.to, context.mask(operation.from[0]), mask);
  copy_defined(context, operation.to, context.warp.defined[operation.from[0]], mask);
  return Step::advance;
}

// Special registers that change while a warp runs.
Step run_read_clock(Context& context, const Operation& operation, std::uint32_t mask) {
  context.launch.time_ns += 1000;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    if (operation.element_bytes == 8) {
      context.set_wide(operation.to, lane, context.launch.time_ns >> operation.immediate);
    } else {
      context.set_word(operation.to, lane, static_cast<std::uint32_t>(context.launch.time_ns >> operation.immediate));
    }
  }
  context.define(operation.to, mask);
  return Step::advance;
}

// {a, b} = c and c = {a, b}: list holds the parts, element_bytes their size.
Step run_split(Context& context, const Operation& operation, std::uint32_t mask) {
  const std::uint32_t bits = 8 * operation.element_bytes;
  for (std::uint32_t i = 0; i < operation.list.count; ++i) {
    const Slot to = context.launch.kernel.slots[operation.list.first + i];
    if (to == kNoSlot) continue;
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      if ((mask >> lane & 1) == 0) continue;
      const std::uint64_t whole = operation.list.count * operation.element_bytes > 4 ? context.wide(operation.from[0], lane)
                                                                                     : context.word(operation.from[0], lane);
      const std::uint64_t part = whole >> (bits * i);
      context.set_word(to, lane, static_cast<std::uint32_t>(bits == 32 ? part : part & ((std::uint32_t{1} << bits) - 1)));
    }
    copy_defined(context, to, context.warp.defined[operation.from[0]], mask);
  }
  return Step::advance;
}

Step run_join(Context& context, const Operation& operation, std::uint32_t mask) {
  const std::uint32_t bits = 8 * operation.element_bytes;
  std::uint32_t defined = kFullMask;
  std::uint64_t whole[kLanes] = {};
  for (std::uint32_t i = 0; i < operation.list.count; ++i) {
    const Slot from = context.launch.kernel.slots[operation.list.first + i];
    defined &= context.warp.defined[from];
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) whole[lane] |= std::uint64_t{context.word(from, lane)} << (bits * i);
  }
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    if (operation.list.count * operation.element_bytes > 4) {
      context.set_wide(operation.to, lane, whole[lane]);
    } else {
      context.set_word(operation.to, lane, static_cast<std::uint32_t>(whole[lane]));
    }
  }
  copy_defined(context, operation.to, defined, mask);
  return Step::advance;
}

Type part_type(std::size_t bytes) { return bytes == 4 ? Type::b32 : bytes == 2 ? Type::b16 : Type::b8; }

void move_parts(Decoding& d, Type type, const ptx::Operand& list, const ptx::Operand& whole, Run run) {
  const std::size_t parts = list.items.size(), bytes = static_cast<std::size_t>(size_bytes(type)) / parts;
  if ((parts != 2 && parts != 4) || bytes < 2 || bytes > 4) return d.fail("the parts do not make up the register");
  d.op.element_bytes = static_cast<std::uint8_t>(bytes);
  std::vector<Slot> slots;
  const bool is_split = run == &run_split;
  for (const ptx::Operand& item : list.items) {
    const bool is_sink = item.kind == ptx::Operand::Kind::sink;
    slots.push_back(is_sink ? kNoSlot : d.pass(item, part_type(bytes)));
    if (is_sink && !is_split) d.fail("_ has no value");
  }
  d.op.list = d.add_range(slots);
  if (is_split) {
    d.op.from[0] = d.pass(whole, type);
  } else {
    d.op.to = d.pass(whole, type);
  }
  d.op.run = run;
}

bool is_clock(const std::string& name) {
  return name == "%clock" || name == "%clock64" || name == "%clock_hi" || name == "%globaltimer" || name == "%globaltimer_lo" ||
         name == "%globaltimer_hi";
}

void mov(Decoding& d) {
  const Type type = d.type();
  d.op.kind = Kind::move;
  d.expect_operands(2, 2);
  const ptx::Operand &to = d.operand(0), &from = d.operand(1);
  if (to.kind == ptx::Operand::Kind::list) return move_parts(d, type, to, from, &run_split);
  if (from.kind == ptx::Operand::Kind::list) return move_parts(d, type, from, to, &run_join);
  if (to.kind != ptx::Operand::Kind::reg) return d.fail("a result must be a register");
  d.op.to = d.pass(to, type);
  if (from.kind == ptx::Operand::Kind::special && is_clock(from.name)) {
    d.op.element_bytes = static_cast<std::uint8_t>(size_bytes(type));
    d.op.immediate = from.name.ends_with("_hi") ? 32 : 0;
    d.op.run = &run_read_clock;
    return;
  }
  d.op.from[0] = d.pass(from, type);
  if (type == Type::pred) {
    d.op.run = &run_move_mask;
  } else if (size_bytes(type) > 8 || size_bytes(type) == 1) {
    d.fail("the type is not supported");
  } else {
    d.op.run = size_bytes(type) == 8 ? &run_move<std::uint64_t> : &run_move<std::uint32_t>;
  }
}

template <class S>
Step run_select(Context& context, const Operation& operation, std::uint32_t mask) {
  S a[kLanes], b[kLanes];
  std::memcpy(a, context.slot(operation.from[0]), sizeof a);
  std::memcpy(b, context.slot(operation.from[1]), sizeof b);
  const std::uint32_t chosen = context.mask(operation.from[2]) ^ (operation.options[1] != 0 ? kFullMask : 0);
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) a[lane] = (chosen >> lane & 1) != 0 ? a[lane] : b[lane];
  store_lanes(context.slot(operation.to), a, mask);
  const std::vector<std::uint32_t>& defined = context.warp.defined;
  copy_defined(context, operation.to, (defined[operation.from[0]] & chosen) | (defined[operation.from[1]] & ~chosen), mask);
  return Step::advance;
}

void selp(Decoding& d) {
  const Type type = d.type();
  d.op.kind = Kind::move;
  d.expect_operands(4, 4);
  if (d.operand(0).kind != ptx::Operand::Kind::reg) return d.fail("a result must be a register");
  d.op.to = d.pass(d.operand(0), type);
  d.op.from[0] = d.pass(d.operand(1), type);
  d.op.from[1] = d.pass(d.operand(2), type);
  d.op.from[2] = d.read_predicate(3);
  d.op.options[1] = d.is_negated(3) ? 1 : 0;
  d.op.run = size_bytes(type) == 8 ? &run_select<std::uint64_t> : &run_select<std::uint32_t>;
}

// slct d, a, b, c: a where c >= 0.
template <class S, bool IsReal>
Step run_select_by_sign(Context& context, const Operation& operation, std::uint32_t mask) {
  S a[kLanes], b[kLanes];
  std::memcpy(a, context.slot(operation.from[0]), sizeof a);
  std::memcpy(b, context.slot(operation.from[1]), sizeof b);
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    const std::uint32_t by = context.word(operation.from[2], lane);
    const bool is_first = IsReal ? f32_of_bits(by) >= 0 : static_cast<std::int32_t>(by) >= 0;
    a[lane] = is_first ? a[lane] : b[lane];
  }
  store_lanes(context.slot(operation.to), a, mask);
  return Step::advance;
}

void slct(Decoding& d) {
  d.take("ftz");
  const Type type = d.type(), by = d.type();
  d.op.kind = Kind::move;
  d.expect_operands(4, 4);
  d.op.to = d.write(0, type);
  d.op.from[0] = d.read(1, type);
  d.op.from[1] = d.read(2, type);
  d.op.from[2] = d.read(3, by);
  if (by != Type::s32 && by != Type::f32) return d.fail("the type is not supported");
  if (size_bytes(type) == 8) {
    d.op.run = by == Type::f32 ? &run_select_by_sign<std::uint64_t, true> : &run_select_by_sign<std::uint64_t, false>;
  } else {
    d.op.run = by == Type::f32 ? &run_select_by_sign<std::uint32_t, true> : &run_select_by_sign<std::uint32_t, false>;
  }
}

// ---- comparisons ----
template <class T>
Run compare_integers(std::string_view comparison) {
  if (comparison == "eq") return compare_of<&alu::equal<T>>();
  if (comparison == "ne") return compare_of<&alu::not_equal<T>>();
  if (comparison == "lt" || comparison == "lo") return compare_of<&alu::less<T>>();
  if (comparison == "le" || comparison == "ls") return compare_of<&alu::less_equal<T>>();
  if (comparison == "gt" || comparison == "hi") return compare_of<&alu::greater<T>>();
  if (comparison == "ge" || comparison == "hs") return compare_of<&alu::greater_equal<T>>();
  return nullptr;
}

template <class T, alu::Flush F, alu::Nan N>
Run compare_reals_of(std::string_view comparison) {
  using V = decltype(alu::comparable(T{}));
  if (comparison == "eq") return compare_of<&alu::compare_real<F, N, T, &alu::equal<V>>>();
  if (comparison == "ne") return compare_of<&alu::compare_real<F, N, T, &alu::not_equal<V>>>();
  if (comparison == "lt") return compare_of<&alu::compare_real<F, N, T, &alu::less<V>>>();
  if (comparison == "le") return compare_of<&alu::compare_real<F, N, T, &alu::less_equal<V>>>();
  if (comparison == "gt") return compare_of<&alu::compare_real<F, N, T, &alu::greater<V>>>();
  if (comparison == "ge") return compare_of<&alu::compare_real<F, N, T, &alu::greater_equal<V>>>();
  return nullptr;
}

template <class T, alu::Flush F>
Run compare_reals(std::string_view comparison) {
  if (comparison == "num") return compare_of<&alu::both_numbers<T>>();
  if (comparison == "nan") return compare_of<&alu::any_nan<T>>();
  if (comparison.size() == 3) return compare_reals_of<T, F, alu::Nan::unordered>(comparison.substr(0, 2));
  return compare_reals_of<T, F, alu::Nan::ordered>(comparison);
}

Run choose_comparison(Type type, std::string_view comparison, bool flushes) {
  Run run = nullptr;
  if (for_integer(type, [&]<class T>() { run = compare_integers<T>(comparison); })) return run;
  if (for_bits(type,
               [&]<class T>() { run = comparison == "eq" || comparison == "ne" ? compare_integers<T>(comparison) : nullptr; }))
    return run;
  using alu::Flush;
  switch (type) {
    case Type::f32:
      return flushes ? compare_reals<float, Flush::yes>(comparison) : compare_reals<float, Flush::no>(comparison);
    case Type::f64:
      return compare_reals<double, Flush::no>(comparison);
    case Type::f16:
      return flushes ? compare_reals<Half, Flush::yes>(comparison) : compare_reals<Half, Flush::no>(comparison);
    case Type::bf16:
      return compare_reals<Brain, Flush::no>(comparison);
    default:
      return nullptr;
  }
}

std::string_view take_comparison(Decoding& d) {
  return d.take_any(
      {"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"});
}

void setp(Decoding& d) {
  const std::string_view comparison = take_comparison(d);
  const std::string_view combination = d.take_any({"and", "or", "xor"});
  const bool flushes = d.take("ftz");
  const Type type = d.type();
  d.op.kind = Kind::compare;
  d.expect_operands(combination.empty() ? 3 : 4, combination.empty() ? 3 : 4);
  const ptx::Operand& to = d.operand(0);
  if (to.kind == ptx::Operand::Kind::pair) {
    d.op.to = d.write(to.items[0], Type::pred);
    d.op.also_to = d.write(to.items[1], Type::pred);
  } else {
    d.op.to = d.write(to, Type::pred);
  }
  d.op.from[0] = d.read(1, type);
  d.op.from[1] = d.read(2, type);
  if (!combination.empty()) {
    d.op.options[0] = combination == "and" ? 1 : combination == "or" ? 2 : 3;
    d.op.options[1] = d.is_negated(3) ? 1 : 0;
    d.op.from[2] = d.read_predicate(3);
  }
  d.op.run = choose_comparison(type, comparison, flushes);
  if (d.op.run == nullptr) d.fail("the comparison is not supported");
}

// set.cmp.u32.f32 d, a, b: the comparison into a predicate of its own, then all ones or 1.0.
Step run_set(Context& context, const Operation& operation, std::uint32_t mask) {
  Operation comparison = operation;
  comparison.to = operation.also_to;
  comparison.also_to = kNoSlot;
  operation.inner(context, comparison, mask);
  const std::uint32_t result = context.mask(operation.also_to);
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) != 0)
      context.set_word(operation.to, lane, (result >> lane & 1) != 0 ? static_cast<std::uint32_t>(operation.immediate) : 0);
  }
  return Step::advance;
}

void set(Decoding& d) {
  const std::string_view comparison = take_comparison(d);
  const bool flushes = d.take("ftz");
  const Type to = d.type(), type = d.type();
  d.op.kind = Kind::compare;
  d.expect_operands(3, 3);
  d.op.to = d.write(0, to);
  d.op.also_to = d.builder().special("(comparison)");
  d.op.from[0] = d.read(1, type);
  d.op.from[1] = d.read(2, type);
  d.op.immediate = to == Type::f32 ? 0x3f800000 : 0xffffffff;
  if (to != Type::f32 && to != Type::u32 && to != Type::s32) return d.fail("the type is not supported");
  const Run run = choose_comparison(type, comparison, flushes);
  if (run == nullptr) return d.fail("the comparison is not supported");
  d.op.inner = run;
  d.op.run = &run_set;
}

// ---- addresses ----
std::uint64_t window_of(Space space) {
  return space == Space::shared ? kSharedWindow : space == Space::local ? kLocalWindow : space == Space::param ? kParamWindow : 0;
}

template <std::uint64_t Window>
std::uint64_t to_generic(std::uint64_t address) {
  return address + Window;
}
template <std::uint64_t Window>
std::uint64_t from_generic(std::uint64_t address) {
  return address - Window;
}

Space take_space(Decoding& d) {
  const std::string_view name =
      d.take_any({"shared", "shared::cta", "shared::cluster", "local", "param", "param::entry", "global", "const"});
  if (name.starts_with("shared")) return Space::shared;
  if (name == "local") return Space::local;
  if (name.starts_with("param")) return Space::param;
  if (name.empty()) d.fail("a state space is missing");
  return Space::global;
}

void cvta(Decoding& d) {
  const bool is_from_generic = d.take("to");
  const Space space = take_space(d);
  const Type type = d.type();
  d.op.kind = Kind::move;
  d.expect_operands(2, 2);
  if (size_bytes(type) != 8) return d.fail("addresses have 64 bits");
  d.op.to = d.write(0, Type::b64);
  d.op.from[0] = d.read(1, Type::b64);
  switch (window_of(space)) {
    case kSharedWindow:
      d.op.run = is_from_generic ? lanes_of<&from_generic<kSharedWindow>>() : lanes_of<&to_generic<kSharedWindow>>();
      break;
    case kLocalWindow:
      d.op.run = is_from_generic ? lanes_of<&from_generic<kLocalWindow>>() : lanes_of<&to_generic<kLocalWindow>>();
      break;
    case kParamWindow:
      d.op.run = is_from_generic ? lanes_of<&from_generic<kParamWindow>>() : lanes_of<&to_generic<kParamWindow>>();
      break;
    default:
      d.op.run = lanes_of<&alu::same<std::uint64_t>>();
  }
}

Step run_is_space(Context& context, const Operation& operation, std::uint32_t mask) {
  std::uint32_t result = 0;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    const std::uint64_t window = context.wide(operation.from[0], lane) & ~(kWindowBytes - 1);
    const bool is_window = window == kSharedWindow || window == kLocalWindow || window == kParamWindow;
    if (operation.immediate == 0 ? !is_window : window == operation.immediate) result |= std::uint32_t{1} << lane;
  }
  context.set_mask(operation.to, result, mask);
  return Step::advance;
}

void isspacep(Decoding& d) {
  d.op.immediate = window_of(take_space(d));
  d.op.kind = Kind::compare;
  d.expect_operands(2, 2);
  d.op.to = d.write(0, Type::pred);
  d.op.from[0] = d.read(1, Type::b64);
  d.op.run = &run_is_space;
}

}  // namespace

const DecoderTable& move_decoders() {
  static const DecoderTable kTable = {{"mov", mov}, {"selp", selp}, {"slct", slct},        {"setp", setp},
                                      {"set", set}, {"cvta", cvta}, {"isspacep", isspacep}};
  return kTable;
}

}  // namespace headnorm::emulator
