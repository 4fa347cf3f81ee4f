// The memory of one emulated device: allocations in an address range of its own, each byte with what is known of it.
//
// Addresses are given out once and never again, with unmapped red zones between allocations, so that an access outside of one, or
// after its end, is told exactly. Memory is mapped sparsely: gigabytes that no kernel touches cost nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace headnorm::emulator {

enum class Access : std::uint8_t { read, write };

// What is known of a byte: 0 never written, 1 written before this launch or atomically, else written by block (tag - first tag of
// the launch).
using Tag = std::uint32_t;
inline constexpr Tag kNeverWritten = 0, kWritten = 1, kFirstTag = 2;

class Allocation {
 public:
  Allocation(std::uint64_t base, std::uint64_t bytes);
  ~Allocation();
  Allocation(Allocation&& other) noexcept;
  Allocation& operator=(Allocation&&) = delete;

  bool is_mapped() const { return mapping_ != nullptr; }
  bool contains(std::uint64_t address, std::uint64_t bytes) const {
    return address >= base && address - base < size && size - (address - base) >= bytes;
  }

  std::uint64_t base = 0, size = 0;
  bool is_constant = false;
  std::uint8_t* data = nullptr;           // `size` bytes
  Tag* tags = nullptr;                    // of each byte
  std::uint32_t* sector_loads = nullptr;  // number of the launch that last loaded each sector of 32 bytes
  std::uint32_t* sector_stores = nullptr;

 private:
  void* mapping_ = nullptr;
  std::size_t mapped_bytes_ = 0;
};

class GlobalMemory {
 public:
  // The device's ordinal chooses the address range, so that one device's pointer is none of another's.
  GlobalMemory(int ordinal, std::uint64_t capacity_bytes);

  // 0 where the device has not so much memory left.
  std::uint64_t allocate(std::uint64_t bytes);
  bool release(std::uint64_t base);  // false: not the base of a live allocation

  Allocation* find(std::uint64_t address);  // that holds this byte, or null
  bool is_device_address(std::uint64_t address) const { return address >= begin_ && address < end_; }
  // Why an access of `bytes` at `address` is outside of every allocation.
  std::string explain(std::uint64_t address, std::uint64_t bytes) const;

  // Tags for the blocks of a launch; what earlier launches wrote counts as written.
  Tag begin_launch(std::uint64_t blocks);
  std::uint32_t launch_number() const { return launch_number_; }

  std::uint64_t used_bytes() const { return used_bytes_; }
  std::uint64_t capacity_bytes() const { return capacity_bytes_; }

 private:
  struct Freed {
    std::uint64_t base = 0, size = 0;
  };

  std::uint64_t begin_ = 0, end_ = 0, next_ = 0, capacity_bytes_ = 0, used_bytes_ = 0;
  std::vector<Allocation> allocations_;  // by rising base
  std::vector<Freed> freed_;
  std::size_t last_found_ = 0;
  std::uint64_t next_tag_ = kFirstTag;
  std::uint32_t launch_number_ = 0;
};

}  // namespace headnorm::emulator
