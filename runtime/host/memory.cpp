#include "runtime/host/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace headnorm::host {
namespace {

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

}  // namespace

Result<Buffer> map_pages(std::size_t bytes) {
  const std::size_t mapped = std::max<std::size_t>(bytes, 1);
  void* address = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED)
    return environment_error(fmt::format("{} bytes of memory could not be had: {}", bytes, std::strerror(errno)),
                             "free memory, raise the limit (ulimit -v), or use fewer rows");
  // Only a wish: kernels stream through their tensors, and fewer page walks help.
  if (mapped >= kHugePageBytes) ::madvise(address, mapped, MADV_HUGEPAGE);
  return Buffer(address, mapped, [](void* pages, std::size_t size) { ::munmap(pages, size); });
}

std::size_t page_bytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

}  // namespace headnorm::host
