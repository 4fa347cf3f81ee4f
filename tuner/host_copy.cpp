#include "tuner/host_copy.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "core/target.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace headnorm {
namespace {

constexpr std::int64_t kLine = 64;
constexpr std::int64_t kMostRingBytes = 128 << 20;
constexpr std::int64_t kLeastThreadBytes = 64 << 10;  // less than that is copied before another thread has heard of it

using Copy = void (*)(std::byte* to, const std::byte* from, std::int64_t bytes);

#if defined(__x86_64__)

// Each copies whole lines of 64 bytes, four at a time and then one at a time: addresses and `bytes` are multiples of 64.
__attribute__((target("avx512f"))) void copy_avx512(std::byte* to, const std::byte* from, std::int64_t bytes) {
  std::int64_t i = 0;
  for (; i + 4 * kLine <= bytes; i += 4 * kLine) {
    const __m512i a = _mm512_load_si512(from + i), b = _mm512_load_si512(from + i + kLine);
    const __m512i c = _mm512_load_si512(from + i + 2 * kLine), d = _mm512_load_si512(from + i + 3 * kLine);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), a);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i + kLine), b);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i + 2 * kLine), c);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i + 3 * kLine), d);
  }
  for (; i < bytes; i += kLine) _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), _mm512_load_si512(from + i));
  _mm_sfence();
}

__attribute__((target("avx2"))) void copy_avx2(std::byte* to, const std::byte* from, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; i += kLine) {
    const __m256i a = _mm256_load_si256(reinterpret_cast<const __m256i*>(from + i));
    const __m256i b = _mm256_load_si256(reinterpret_cast<const __m256i*>(from + i + 32));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i), a);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i + 32), b);
  }
  _mm_sfence();
}

void copy_sse2(std::byte* to, const std::byte* from, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; i += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), _mm_load_si128(reinterpret_cast<const __m128i*>(from + i)));
  }
  _mm_sfence();
}

Copy best_stream_copy() {
  if (host_supports(HostIsa::x86_64_v4)) return copy_avx512;
  if (host_supports(HostIsa::x86_64_v3)) return copy_avx2;
  return copy_sse2;
}

#else

// Whole lines of 64 bytes.
void copy_stream(std::byte* to, const std::byte* from, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; i += kLine) {
    __asm__ volatile("ldnp q0, q1, [%1]\n\tldnp q2, q3, [%1, #32]\n\tstnp q0, q1, [%0]\n\tstnp q2, q3, [%0, #32]"
                     :
                     : "r"(to + i), "r"(from + i)
                     : "v0", "v1", "v2", "v3", "memory");
  }
}

Copy best_stream_copy() { return copy_stream; }

#endif

void copy_warm(std::byte* to, const std::byte* from, std::int64_t bytes) { std::memcpy(to, from, static_cast<std::size_t>(bytes)); }

Copy best_copy(CachePolicy policy) { return policy == CachePolicy::warm ? copy_warm : best_stream_copy(); }

void unmap(void* address, std::size_t bytes) { munmap(address, bytes); }

Result<Buffer> map(std::int64_t bytes) {
  void* address = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    return environment_error(fmt::format("no memory for a copy of {} bytes: {}", bytes, std::strerror(errno)),
                             "free memory, or tune fewer rows");
  }
  madvise(address, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
  std::memset(address, 0x3f, static_cast<std::size_t>(bytes));  // pages that were never written would all read one page of zeros
  return Buffer(address, static_cast<std::size_t>(bytes), unmap);
}

class HostCopy final : public CopyReference {
 public:
  HostCopy(Buffer source, Buffer destination, int threads, Copy copy)
      : source_(std::move(source)), destination_(std::move(destination)), threads_(threads), copy_(copy) {}

  Result<double> measure_us(std::int64_t bytes) override {
    const int launches = launches_per_trial(bytes);
    const std::int64_t half = std::max(kLine, bytes / 2 / kLine * kLine);
    if (half > static_cast<std::int64_t>(source_.bytes()))
      return internal_error(fmt::format("a copy of {} bytes exceeds its buffers", bytes));
    std::vector<double> times;
    for (int i = 0; i < launches; ++i) {
      if (place_ + half > static_cast<std::int64_t>(source_.bytes())) place_ = 0;
      times.push_back(copy_once(half));
      place_ += half;
    }
    return quantile(times, 0.5);
  }

 private:
  double copy_once(std::int64_t bytes) const {
    std::byte* to = static_cast<std::byte*>(destination_.address()) + place_;
    const std::byte* from = static_cast<const std::byte*>(source_.address()) + place_;
    const int threads = static_cast<int>(std::clamp<std::int64_t>(bytes / kLeastThreadBytes, 1, threads_));
    // Helpers wait at a gate, so that starting threads is not timed.
    std::atomic<int> ready = 0;
    std::atomic<bool> go = false;
    const auto part = [&](int thread) {
      const std::int64_t lines = bytes / kLine, begin = lines * thread / threads * kLine,
                         end = lines * (thread + 1) / threads * kLine;
      copy_(to + begin, from + begin, end - begin);
    };
    std::vector<std::thread> helpers;
    for (int thread = 1; thread < threads; ++thread) {
      helpers.emplace_back([&, thread] {
        ++ready;
        while (!go) std::this_thread::yield();
        part(thread);
        --ready;
      });
    }
    while (ready < threads - 1) std::this_thread::yield();
    const auto begin = std::chrono::steady_clock::now();
    go = true;
    part(0);
    while (ready > 0) std::this_thread::yield();
    const auto end = std::chrono::steady_clock::now();
    for (std::thread& helper : helpers) helper.join();
    return std::chrono::duration<double, std::micro>(end - begin).count();
  }

  Buffer source_, destination_;
  int threads_;
  Copy copy_;
  std::int64_t place_ = 0;
};

}  // namespace

void stream_copy(void* to, const void* from, std::int64_t bytes) {
  static const Copy copy = best_stream_copy();
  copy(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
}

Result<std::unique_ptr<CopyReference>> make_host_copy(const DeviceInfo& device, CachePolicy policy, std::int64_t largest_bytes) {
  std::int64_t ring = std::max(kLine, largest_bytes / 2);
  if (policy == CachePolicy::cold) ring = std::max(ring, std::min(device.cache_bytes, kMostRingBytes));
  HEADNORM_TRY(Buffer source, map(ring));
  HEADNORM_TRY(Buffer destination, map(ring));
  return std::unique_ptr<CopyReference>(
      std::make_unique<HostCopy>(std::move(source), std::move(destination), std::max(1, device.units), best_copy(policy)));
}

}  // namespace headnorm
