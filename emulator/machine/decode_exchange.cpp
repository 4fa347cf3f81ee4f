// What the lanes of a warp exchange: decoding and running.
#include <fmt/format.h>

#include <bit>

#include "emulator/machine/atomic.h"
#include "emulator/machine/context.h"
#include "emulator/machine/decoding.h"

namespace headnorm::emulator {
namespace {

// Whether all lanes that the masks in `slot` name stand here; a fault where a lane does not name itself.
Step meet(const Context& context, const Operation& operation, Slot slot, std::uint32_t mask) {
  std::uint32_t needed = 0;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const std::uint32_t named = context.word(slot, lane);
    if ((named >> lane & 1) == 0)
      return context.fail(operation, lane, Rule::shuffle, std::nullopt,
                          fmt::format("the mask {:#010x} does not name the thread itself", named));
    needed |= named & context.warp.alive;
  }
  return (needed & ~mask) != 0 ? Step::converge : Step::advance;
}

enum class Way : std::uint8_t { up, down, butterfly, index };

struct Source {
  std::uint32_t lane = 0;
  bool is_inside = false;  // of the segment
};

Source source_of(Way way, std::uint32_t lane, std::uint32_t b, std::uint32_t c) {
  const std::uint32_t step = b & 31, segment = c >> 8 & 31, clamp = c & 31;
  const std::uint32_t low = lane & segment, high = low | (clamp & ~segment & 31);
  int from = static_cast<int>(lane);
  bool is_inside = false;
  switch (way) {
    case Way::up:
      from -= static_cast<int>(step);
      is_inside = from >= static_cast<int>(high);
      break;
    case Way::down:
      from += static_cast<int>(step);
      is_inside = from <= static_cast<int>(high);
      break;
    case Way::butterfly:
      from ^= static_cast<int>(step);
      is_inside = from <= static_cast<int>(high);
      break;
    case Way::index:
      from = static_cast<int>(low | (step & ~segment));
      is_inside = from <= static_cast<int>(high);
      break;
  }
  return {is_inside ? static_cast<std::uint32_t>(from) : lane, is_inside};
}

// from: value, b, c, mask of members.
Step run_shuffle(Context& context, const Operation& operation, std::uint32_t mask) {
  if (const Step step = meet(context, operation, operation.from[3], mask); step != Step::advance) return step;
  std::uint32_t values[kLanes], inside = 0, defined = 0;
  const std::uint32_t known = context.warp.defined[operation.from[0]];
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) values[lane] = context.word(operation.from[0], lane);
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const Source source = source_of(static_cast<Way>(operation.options[0]), lane, context.word(operation.from[1], lane),
                                    context.word(operation.from[2], lane));
    const bool is_named = (context.word(operation.from[3], lane) >> source.lane & 1) != 0;
    if ((mask >> source.lane & 1) == 0 || !is_named)
      return context.fail(
          operation, lane, Rule::shuffle, std::nullopt,
          fmt::format("reads lane {}, which {}", source.lane, is_named ? "takes no part" : "the mask does not name"));
    if (operation.to != kNoSlot) context.set_word(operation.to, lane, values[source.lane]);
    inside |= static_cast<std::uint32_t>(source.is_inside) << lane;
    defined |= (known >> source.lane & 1) << lane;
  }
  context.set_mask(operation.also_to, inside, mask);
  if (operation.to != kNoSlot) context.warp.defined[operation.to] = (context.warp.defined[operation.to] & ~mask) | (defined & mask);
  return Step::advance;
}

void shfl(Decoding& d) {
  d.op.kind = Kind::shuffle;
  d.op.is_collective = true;
  if (!d.take("sync")) return d.fail("shfl without .sync is gone since sm_70");
  const std::string_view way = d.take_any({"up", "down", "bfly", "idx"});
  if (way.empty()) return d.fail("shfl.sync is .up, .down, .bfly or .idx");
  d.op.options[0] = static_cast<std::uint8_t>(way == "up"     ? Way::up
                                              : way == "down" ? Way::down
                                              : way == "bfly" ? Way::butterfly
                                                              : Way::index);
  if (d.type() != Type::b32) return d.fail("the type is not supported");
  d.expect_operands(5, 5);
  const ptx::Operand* to = &d.operand(0);
  if (to->kind == ptx::Operand::Kind::pair) {
    d.op.also_to = d.write(to->items[1], Type::pred);
    to = &to->items[0];
  }
  if (to->kind != ptx::Operand::Kind::sink) d.op.to = d.pass(*to, Type::b32);
  d.op.from[0] = d.pass(d.operand(1), Type::b32);
  for (std::size_t i = 1; i < 4; ++i) d.op.from[i] = d.read(i + 1, Type::b32);
  d.op.run = &run_shuffle;
}

// The members of each lane's set that are true.
template <class F>
void for_sets(const Context& context, Slot members, std::uint32_t mask, F f) {
  for (std::uint32_t left = mask; left != 0;) {
    const std::uint32_t set = context.word(members, first_lane(left)) & mask;
    f(set);
    left &= ~set;
  }
}

enum class Vote : std::uint8_t { all, any, uniform, ballot };

Step run_vote(Context& context, const Operation& operation, std::uint32_t mask) {
  if (const Step step = meet(context, operation, operation.from[1], mask); step != Step::advance) return step;
  const std::uint32_t predicate = context.mask(operation.from[0]) ^ (operation.options[1] != 0 ? kFullMask : 0);
  const auto vote = static_cast<Vote>(operation.options[0]);
  for_sets(context, operation.from[1], mask, [&](std::uint32_t set) {
    const std::uint32_t ones = predicate & set;
    if (vote == Vote::ballot) {
      for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
        if ((set >> lane & 1) != 0) context.set_word(operation.to, lane, ones);
      }
      return;
    }
    const bool is_true = vote == Vote::all ? ones == set : vote == Vote::any ? ones != 0 : ones == set || ones == 0;
    context.set_mask(operation.to, is_true ? kFullMask : 0, set);
  });
  return Step::advance;
}

void vote(Decoding& d) {
  d.op.kind = Kind::shuffle;
  d.op.is_collective = true;
  if (!d.take("sync")) return d.fail("vote without .sync is gone since sm_70");
  const std::string_view name = d.take_any({"all", "any", "uni", "ballot"});
  const Type type = d.type();
  d.expect_operands(3, 3);
  d.op.to = d.write(0, type);
  d.op.from[0] = d.read_predicate(1);
  d.op.from[1] = d.read(2, Type::b32);
  d.op.options[0] = static_cast<std::uint8_t>(name == "all"   ? Vote::all
                                              : name == "any" ? Vote::any
                                              : name == "uni" ? Vote::uniform
                                                              : Vote::ballot);
  d.op.options[1] = d.is_negated(1) ? 1 : 0;
  if (name.empty() || (name == "ballot") != (type == Type::b32)) return d.fail("the form is not supported");
  d.op.run = &run_vote;
}

Step run_match(Context& context, const Operation& operation, std::uint32_t mask) {
  if (const Step step = meet(context, operation, operation.from[1], mask); step != Step::advance) return step;
  auto value = [&](std::uint32_t lane) {
    return operation.element_bytes == 8 ? context.wide(operation.from[0], lane) : context.word(operation.from[0], lane);
  };
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const std::uint32_t set = context.word(operation.from[1], lane) & mask;
    std::uint32_t equal = 0;
    for (std::uint32_t other = 0; other < kLanes; ++other) {
      if ((set >> other & 1) != 0 && value(other) == value(lane)) equal |= std::uint32_t{1} << other;
    }
    const bool is_all = operation.options[0] != 0;
    context.set_word(operation.to, lane, is_all && equal != set ? 0 : equal);
    context.set_mask(operation.also_to, equal == set ? kFullMask : 0, std::uint32_t{1} << lane);
  }
  return Step::advance;
}

void match(Decoding& d) {
  d.op.kind = Kind::shuffle;
  d.op.is_collective = true;
  const bool is_all = d.take("all");
  if ((!is_all && !d.take("any")) || !d.take("sync")) return d.fail("match is .any.sync or .all.sync");
  const Type type = d.type();
  d.expect_operands(3, 3);
  const ptx::Operand& to = d.operand(0);
  d.op.to = d.write(to.kind == ptx::Operand::Kind::pair ? to.items[0] : to, Type::b32);
  if (to.kind == ptx::Operand::Kind::pair) d.op.also_to = d.write(to.items[1], Type::pred);
  d.op.from[0] = d.read(1, type);
  d.op.from[1] = d.read(2, Type::b32);
  d.op.options[0] = is_all ? 1 : 0;
  d.op.element_bytes = static_cast<std::uint8_t>(size_bytes(type));
  d.op.run = &run_match;
}

Step run_active_mask(Context& context, const Operation& operation, std::uint32_t mask) {
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) != 0) context.set_word(operation.to, lane, mask);
  }
  return Step::advance;
}

void activemask(Decoding& d) {
  if (d.type() != Type::b32) return d.fail("the type is not supported");
  d.expect_operands(1, 1);
  d.op.to = d.write(0, Type::b32);
  d.op.run = &run_active_mask;
}

// elect.sync d|p, members: one lane, the lowest.
Step run_elect(Context& context, const Operation& operation, std::uint32_t mask) {
  if (const Step step = meet(context, operation, operation.from[0], mask); step != Step::advance) return step;
  for_sets(context, operation.from[0], mask, [&](std::uint32_t set) {
    const std::uint32_t leader = first_lane(set);
    for (std::uint32_t lane = 0; lane < kLanes && operation.to != kNoSlot; ++lane) {
      if ((set >> lane & 1) != 0) context.set_word(operation.to, lane, leader);
    }
    context.set_mask(operation.also_to, std::uint32_t{1} << leader, set);
  });
  return Step::advance;
}

void elect(Decoding& d) {
  d.op.kind = Kind::shuffle;
  d.op.is_collective = true;
  if (!d.take("sync")) return d.fail("elect is .sync");
  d.expect_operands(2, 2);
  const ptx::Operand& to = d.operand(0);
  if (to.kind != ptx::Operand::Kind::pair) return d.fail("elect.sync gives a lane and a predicate");
  d.op.to = d.write(to.items[0], Type::b32);
  d.op.also_to = d.write(to.items[1], Type::pred);
  d.op.from[0] = d.read(1, Type::b32);
  d.op.run = &run_elect;
}

// redux.sync.op.type d, a, members
Step run_redux(Context& context, const Operation& operation, std::uint32_t mask) {
  if (const Step step = meet(context, operation, operation.from[1], mask); step != Step::advance) return step;
  for_sets(context, operation.from[1], mask, [&](std::uint32_t set) {
    std::uint64_t result = context.word(operation.from[0], first_lane(set));
    for (std::uint32_t lane = first_lane(set) + 1; lane < kLanes; ++lane) {
      if ((set >> lane & 1) == 0) continue;
      result = apply(static_cast<Atomic>(operation.options[1]), static_cast<Type>(operation.options[2]), result,
                     context.word(operation.from[0], lane), 0);
    }
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      if ((set >> lane & 1) != 0) context.set_word(operation.to, lane, static_cast<std::uint32_t>(result));
    }
  });
  return Step::advance;
}

void redux(Decoding& d) {
  d.op.kind = Kind::shuffle;
  d.op.is_collective = true;
  if (!d.take("sync")) return d.fail("redux is .sync");
  Atomic atomic{};
  if (!take_atomic(d, atomic)) return d.fail("the reduction is not known");
  const Type type = d.type();
  const bool is_bitwise = atomic >= Atomic::bit_and && atomic <= Atomic::bit_xor && type == Type::b32;
  const bool is_sum = atomic <= Atomic::max && (type == Type::u32 || type == Type::s32);
  if (!is_bitwise && !is_sum) return d.fail("the reduction is not supported for this type");
  d.expect_operands(3, 3);
  d.op.to = d.write(0, type);
  d.op.from[0] = d.read(1, type);
  d.op.from[1] = d.read(2, Type::b32);
  d.op.options[1] = static_cast<std::uint8_t>(atomic);
  d.op.options[2] = static_cast<std::uint8_t>(type);
  d.op.run = &run_redux;
}

}  // namespace

const DecoderTable& exchange_decoders() {
  static const DecoderTable kTable = {{"shfl", shfl},   {"vote", vote},  {"match", match}, {"activemask", activemask},
                                      {"elect", elect}, {"redux", redux}};
  return kTable;
}

}  // namespace headnorm::emulator
