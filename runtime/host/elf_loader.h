// Loads one ELF relocatable object for this machine into memory of its own: the code of a host kernel, with no help of a linker.
//
// Takes what a compiler emits for one position independent function: code, read-only data, static variables, and relocations inside
// the object (relocation.h has the types that a machine knows). Nothing is taken on trust: an object that is cut off or damaged is
// an error, whatever its bytes. No page is ever writable and executable at once.
#pragma once

#include <string_view>

#include "core/result.h"
#include "runtime/device.h"

namespace headnorm::host {

struct ElfImage {
  Buffer memory;          // owns the pages
  void* entry = nullptr;  // in them
};

// `entry` names a global function of the object; `object` is not used after the call. Errors (environment): the object is damaged,
// is for another machine, asks for a symbol of another object (which is named) or for something that a kernel never needs, has no
// such function, or the system refuses executable memory.
Result<ElfImage> load_elf_object(std::string_view object, std::string_view entry);

}  // namespace headnorm::host
