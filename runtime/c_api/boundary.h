// The boundary of the C API: results and exceptions become a status and the thread's last error, structs of other sizes ours.
#pragma once

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>

#include "core/result.h"
#include "runtime/c_api/headnorm_c.h"

namespace headnorm::c_api {

headnorm_status fail(const Error& error) noexcept;
headnorm_status fail(const std::bad_alloc& thrown) noexcept;
headnorm_status fail(const std::exception& thrown) noexcept;  // any other: of a function of the caller's
headnorm_status fail_foreign() noexcept;                      // for an exception that is no std::exception
Error null_argument(const char* name);

// Runs `work`, which returns a Result<void>; nothing leaves it but a status.
template <class Work>
headnorm_status guarded(const Work& work) noexcept {
  try {
    const Result<void> result = work();
    return result.ok() ? HEADNORM_OK : fail(result.error());
  } catch (const std::bad_alloc& thrown) {
    return fail(thrown);
  } catch (const std::exception& thrown) {
    return fail(thrown);
  } catch (...) {
    return fail_foreign();
  }
}

Error wrong_size(const char* name);

// More than any struct will have: a size that was never set must not be read up to.
inline constexpr std::size_t kMostStructBytes = 4096;

// The caller's struct, which may be of an older version (members that it lacks are 0) or of a newer one (those that we lack must be
// 0).
template <class Struct>
Result<Struct> read_struct(const Struct* given, const char* name) {
  if (given->struct_size < sizeof given->struct_size || given->struct_size > kMostStructBytes) return wrong_size(name);
  Struct ours;
  std::memset(static_cast<void*>(&ours), 0, sizeof ours);
  std::memcpy(static_cast<void*>(&ours), given, std::min(given->struct_size, sizeof ours));
  const char* const bytes = reinterpret_cast<const char*>(given);
  for (std::size_t i = sizeof ours; i < given->struct_size; ++i) {
    if (bytes[i] != 0) return wrong_size(name);
  }
  return ours;
}

// Fills as much of the caller's struct as there is; its size stays.
template <class Struct>
void write_struct(Struct* given, Struct ours) {
  ours.struct_size = given->struct_size;
  std::memcpy(static_cast<void*>(given), &ours, std::min(given->struct_size, sizeof ours));
}

// Cut if it is too long.
template <std::size_t N>
void write_text(char (&place)[N], std::string_view text) {
  place[text.copy(place, N - 1)] = 0;
}

}  // namespace headnorm::c_api
