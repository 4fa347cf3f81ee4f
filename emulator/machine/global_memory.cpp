#include "emulator/machine/global_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <utility>

namespace headnorm::emulator {
namespace {

constexpr std::uint64_t kFirstAddress = std::uint64_t{1} << 44;  // far from where Linux puts a process's memory
constexpr std::uint64_t kDeviceRange = std::uint64_t{1} << 40;
constexpr std::uint64_t kRedZone = 4096, kAlignment = 256;

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

Allocation::Allocation(std::uint64_t first, std::uint64_t bytes) : base(first), size(bytes) {
  const std::uint64_t sectors = round_up(bytes, 32) / 32, data_bytes = round_up(bytes, 64);
  mapped_bytes_ = data_bytes + data_bytes * sizeof(Tag) + 2 * sectors * sizeof(std::uint32_t);
  void* mapping = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return;
  mapping_ = mapping;
  data = static_cast<std::uint8_t*>(mapping);
  tags = reinterpret_cast<Tag*>(data + data_bytes);
  sector_loads = tags + data_bytes;
  sector_stores = sector_loads + sectors;
}

Allocation::~Allocation() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_bytes_);
}

Allocation::Allocation(Allocation&& other) noexcept
    : base(other.base),
      size(other.size),
      is_constant(other.is_constant),
      data(other.data),
      tags(other.tags),
      sector_loads(other.sector_loads),
      sector_stores(other.sector_stores),
      mapping_(std::exchange(other.mapping_, nullptr)),
      mapped_bytes_(other.mapped_bytes_) {}

GlobalMemory::GlobalMemory(int ordinal, std::uint64_t capacity_bytes)
    : begin_(kFirstAddress + static_cast<std::uint64_t>(ordinal) * kDeviceRange),
      end_(begin_ + kDeviceRange),
      next_(begin_ + kRedZone),
      capacity_bytes_(capacity_bytes) {}

std::uint64_t GlobalMemory::allocate(std::uint64_t bytes) {
  if (bytes == 0 || bytes > capacity_bytes_ - used_bytes_) return 0;
  const std::uint64_t base = next_, after = round_up(base + bytes, kAlignment) + kRedZone;
  if (after > end_) return 0;
  Allocation allocation(base, bytes);
  if (!allocation.is_mapped()) return 0;
  allocations_.push_back(std::move(allocation));
  next_ = after;
  used_bytes_ += bytes;
  return base;
}

bool GlobalMemory::release(std::uint64_t base) {
  for (std::size_t i = 0; i < allocations_.size(); ++i) {
    if (allocations_[i].base != base) continue;
    freed_.push_back({base, allocations_[i].size});
    used_bytes_ -= allocations_[i].size;
    std::vector<Allocation> kept;
    kept.reserve(allocations_.size() - 1);
    for (std::size_t k = 0; k < allocations_.size(); ++k) {
      if (k != i) kept.push_back(std::move(allocations_[k]));
    }
    allocations_ = std::move(kept);
    last_found_ = 0;
    return true;
  }
  return false;
}

Allocation* GlobalMemory::find(std::uint64_t address) {
  if (last_found_ < allocations_.size() && allocations_[last_found_].contains(address, 1)) return &allocations_[last_found_];
  const auto after = std::upper_bound(allocations_.begin(), allocations_.end(), address,
                                      [](std::uint64_t wanted, const Allocation& a) { return wanted < a.base; });
  if (after == allocations_.begin() || !(after - 1)->contains(address, 1)) return nullptr;
  last_found_ = static_cast<std::size_t>(after - 1 - allocations_.begin());
  return &allocations_[last_found_];
}

std::string GlobalMemory::explain(std::uint64_t address, std::uint64_t bytes) const {
  for (const Freed& freed : freed_) {
    if (address >= freed.base && address < freed.base + freed.size)
      return fmt::format("{} bytes in an allocation of {} bytes that was freed", bytes, freed.size);
  }
  const Allocation* nearest = nullptr;
  std::uint64_t distance = ~std::uint64_t{0};
  for (const Allocation& allocation : allocations_) {
    const std::uint64_t end = allocation.base + allocation.size;
    const std::uint64_t away = address >= end ? address - end : address < allocation.base ? allocation.base - address : 0;
    if (away < distance) {
      nearest = &allocation;
      distance = away;
    }
  }
  if (nearest == nullptr) return fmt::format("{} bytes where nothing is allocated", bytes);
  const std::uint64_t end = nearest->base + nearest->size;
  if (address >= nearest->base && address < end)
    return fmt::format("{} bytes that reach {} past the end of an allocation of {} bytes", bytes, address + bytes - end,
                       nearest->size);
  return fmt::format("{} bytes, {} {} an allocation of {} bytes", bytes, distance, address >= end ? "past the end of" : "before",
                     nearest->size);
}

Tag GlobalMemory::begin_launch(std::uint64_t blocks) {
  ++launch_number_;
  if (next_tag_ + blocks > 0xffffffffu) {
    for (Allocation& allocation : allocations_) {
      for (std::uint64_t i = 0; i < allocation.size; ++i) allocation.tags[i] = std::min(allocation.tags[i], kWritten);
    }
    next_tag_ = kFirstTag;
  }
  const Tag first = static_cast<Tag>(next_tag_);
  next_tag_ += blocks;
  return first;
}

}  // namespace headnorm::emulator
