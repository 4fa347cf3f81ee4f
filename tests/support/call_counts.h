// How often this process took memory or a lock: counts of what a piece of code does, for tests of what it must not do.
#pragma once

namespace headnorm::test {

// Since the process began. Memory: malloc and its kin, and through it operator new. Locks: mutexes and reader-writer locks; 0 under
// a sanitizer, which has these functions for itself.
long allocations();
long locks();

}  // namespace headnorm::test
