// arc4random for programs that run on older systems than they were built on: libstdc++'s random_device calls the C library's, which
// is there from glibc 2.36 on.
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

uint32_t arc4random(void) {
  uint32_t value = 0;
  // A request of so few bytes is never cut short.
  if (getrandom(&value, sizeof value, 0) != (ssize_t)sizeof value) abort();
  return value;
}
