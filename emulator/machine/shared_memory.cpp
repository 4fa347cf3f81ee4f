#include "emulator/machine/shared_memory.h"

#include <algorithm>

namespace headnorm::emulator {

void SharedMemory::reset(std::uint64_t bytes) {
  bytes_.assign(bytes, 0xcd);
  states_.assign(bytes, ByteState::outside);
  writes_.assign(bytes, {});
  reads_.assign(bytes, {});
  earlier_reads_.assign(bytes, {});
}

void SharedMemory::add_array(std::uint64_t offset, std::uint64_t bytes) { set_state(offset, bytes, ByteState::unwritten); }

void SharedMemory::set_state(std::uint64_t offset, std::uint64_t bytes, ByteState state) {
  std::fill_n(states_.begin() + static_cast<std::ptrdiff_t>(offset), bytes, state);
}

bool SharedMemory::all_are(std::uint64_t offset, std::uint64_t bytes, ByteState state) const {
  const auto begin = states_.begin() + static_cast<std::ptrdiff_t>(offset);
  return std::all_of(begin, begin + static_cast<std::ptrdiff_t>(bytes), [&](ByteState s) { return s == state; });
}

SharedError SharedMemory::note_read(const HappensBefore& order, std::uint32_t thread, std::uint64_t offset, std::uint64_t bytes,
                                    Strength strength, std::uint64_t used) {
  const Stamp now{order.clock(thread), static_cast<std::uint16_t>(thread), strength};
  for (std::uint64_t i = offset; i < offset + bytes; ++i) {
    if (states_[i] == ByteState::outside) return {SharedError::Kind::outside};
    if ((used >> (i - offset) & 1) == 0) continue;
    if (states_[i] == ByteState::arriving) return {SharedError::Kind::arriving};
    if (states_[i] == ByteState::unwritten) return {SharedError::Kind::unwritten};
    if (states_[i] == ByteState::barrier) return {SharedError::Kind::barrier};
    if (races(order, writes_[i], thread, strength)) return {SharedError::Kind::race, writes_[i].thread};
    if (reads_[i].clock != 0 && reads_[i].thread != thread) earlier_reads_[i] = reads_[i];
    reads_[i] = merged(reads_[i], now);
  }
  return {};
}

SharedError SharedMemory::note_write(const HappensBefore& order, std::uint32_t thread, std::uint64_t offset, std::uint64_t bytes,
                                     Strength strength) {
  const Stamp now{order.clock(thread), static_cast<std::uint16_t>(thread), strength};
  for (std::uint64_t i = offset; i < offset + bytes; ++i) {
    if (states_[i] == ByteState::outside) return {SharedError::Kind::outside};
    if (states_[i] == ByteState::arriving) return {SharedError::Kind::arriving};
    if (states_[i] == ByteState::leaving) return {SharedError::Kind::leaving};
    if (states_[i] == ByteState::barrier) return {SharedError::Kind::barrier};
    for (const Stamp* stamp : {&writes_[i], &reads_[i], &earlier_reads_[i]}) {
      if (races(order, *stamp, thread, strength)) return {SharedError::Kind::race, stamp->thread};
    }
    states_[i] = ByteState::written;
    writes_[i] = merged(writes_[i], now);
  }
  return {};
}

void SharedMemory::note_arrival(const HappensBefore& order, std::uint64_t offset, const std::vector<std::uint8_t>& data) {
  const Stamp now{order.clock(order.engine()), static_cast<std::uint16_t>(order.engine()), Strength::weak};
  for (std::size_t i = 0; i < data.size(); ++i) {
    bytes_[offset + i] = data[i];
    states_[offset + i] = ByteState::written;
    writes_[offset + i] = now;
  }
}

}  // namespace headnorm::emulator
