// The shared memory of one block: bytes, and what is known of each: whether it is in an array, written, the target of a copy that
// is still on its way, or part of an mbarrier; and who touched it last, for races.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/machine/happens_before.h"

namespace headnorm::emulator {

enum class ByteState : std::uint8_t {
  outside,  // of every array
  unwritten,
  written,
  arriving,  // an asynchronous copy will write it
  leaving,   // written, and an asynchronous copy will read it
  barrier,   // of an mbarrier object
};

enum class Strength : std::uint8_t { weak, strong };  // strong: volatile, relaxed or atomic; two such accesses do not race

// Why an access is wrong; empty: it is not.
struct SharedError {
  enum class Kind : std::uint8_t { none, outside, unwritten, arriving, leaving, barrier, race } kind = Kind::none;
  std::uint32_t other_thread = 0;  // of a race, in the cluster
};

class SharedMemory {
 public:
  void reset(std::uint64_t bytes);
  void add_array(std::uint64_t offset, std::uint64_t bytes);
  std::uint64_t size() const { return bytes_.size(); }
  bool contains(std::uint64_t offset, std::uint64_t bytes) const {
    return offset < bytes_.size() && bytes_.size() - offset >= bytes;
  }

  std::uint8_t* data(std::uint64_t offset) { return bytes_.data() + offset; }
  ByteState state(std::uint64_t offset) const { return states_[offset]; }
  void set_state(std::uint64_t offset, std::uint64_t bytes, ByteState state);
  bool all_are(std::uint64_t offset, std::uint64_t bytes, ByteState state) const;

  // Notes an access by a thread of the cluster and says what is wrong with it. `used` has a bit for each byte that is read for its
  // value.
  SharedError note_read(const HappensBefore& order, std::uint32_t thread, std::uint64_t offset, std::uint64_t bytes,
                        Strength strength, std::uint64_t used);
  SharedError note_write(const HappensBefore& order, std::uint32_t thread, std::uint64_t offset, std::uint64_t bytes,
                         Strength strength);
  // The engine of asynchronous copies has written these bytes.
  void note_arrival(const HappensBefore& order, std::uint64_t offset, const std::vector<std::uint8_t>& data);

 private:
  struct Stamp {
    Clock clock = 0;  // 0: no access yet
    std::uint16_t thread = 0;
    Strength strength = Strength::weak;
  };

  static bool races(const HappensBefore& order, const Stamp& stamp, std::uint32_t thread, Strength strength) {
    if (stamp.clock == 0 || (stamp.strength == Strength::strong && strength == Strength::strong)) return false;
    return !order.knows(thread, stamp.thread, stamp.clock);
  }

  // A strong access does not hide the weak one that its thread made just before.
  static Stamp merged(const Stamp& before, Stamp now) {
    if (before.thread == now.thread && before.clock == now.clock && before.strength == Strength::weak)
      now.strength = Strength::weak;
    return now;
  }

  std::vector<std::uint8_t> bytes_;
  std::vector<ByteState> states_;
  std::vector<Stamp> writes_, reads_, earlier_reads_;  // earlier_reads_: the last one by another thread
};

}  // namespace headnorm::emulator
