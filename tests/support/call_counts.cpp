// The functions of libc under their own names: what is linked into the same program calls these. Memory comes from libc's second
// names of the same functions.
#include "tests/support/call_counts.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cstddef>

namespace {

std::atomic<long> allocation_count{0}, lock_count{0};

}  // namespace

namespace headnorm::test {

long allocations() { return allocation_count; }
long locks() { return lock_count; }

}  // namespace headnorm::test

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void*, std::size_t),
                                                         void (*free_hook)(const volatile void*));

namespace {
[[maybe_unused]] const int kInstalled = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void*, std::size_t) { ++allocation_count; }, [](const volatile void*) {});
}  // namespace

#else

extern "C" {

void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) {
  ++allocation_count;
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  ++allocation_count;
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  ++allocation_count;
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  ++allocation_count;
  return __libc_memalign(alignment, bytes);
}

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  static auto* const next = reinterpret_cast<int (*)(pthread_mutex_t*)>(::dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  ++lock_count;
  return next(mutex);
}
int pthread_rwlock_rdlock(pthread_rwlock_t* lock) {
  static auto* const next = reinterpret_cast<int (*)(pthread_rwlock_t*)>(::dlsym(RTLD_NEXT, "pthread_rwlock_rdlock"));
  ++lock_count;
  return next(lock);
}
int pthread_rwlock_wrlock(pthread_rwlock_t* lock) {
  static auto* const next = reinterpret_cast<int (*)(pthread_rwlock_t*)>(::dlsym(RTLD_NEXT, "pthread_rwlock_wrlock"));
  ++lock_count;
  return next(lock);
}
}

#endif
