#include "runtime/c_api/boundary.h"

#include <fmt/format.h>

namespace headnorm::c_api {
namespace {

thread_local Error last_error{ErrorKind::internal, "", ""};

headnorm_status status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::user:
      return HEADNORM_ERROR_USER;
    case ErrorKind::environment:
      return HEADNORM_ERROR_ENVIRONMENT;
    case ErrorKind::internal:
      break;
  }
  return HEADNORM_ERROR_INTERNAL;
}

// headnorm itself throws nothing but for want of memory.
template <class Text>
headnorm_status fail_thrown(const Text& what) noexcept {
  try {
    return fail(user_error("a function that was handed to headnorm threw " + what(),
                           "let no exception leave the functions of an executor, nor warn"));
  } catch (const std::exception&) {
    return HEADNORM_ERROR_USER;
  }
}

}  // namespace

headnorm_status fail(const Error& error) noexcept {
  try {
    last_error = error;
  } catch (const std::exception&) {  // no memory for the text
    last_error.message.clear();
    last_error.remedy.clear();
  }
  return status_of(error.kind);
}

headnorm_status fail(const std::bad_alloc& thrown) noexcept {
  try {
    return fail(environment_error(fmt::format("there is not enough memory ({})", thrown.what()), "free memory and try again"));
  } catch (const std::exception&) {
    return HEADNORM_ERROR_ENVIRONMENT;
  }
}

headnorm_status fail(const std::exception& thrown) noexcept {
  return fail_thrown([&] { return fmt::format("an exception: {}", thrown.what()); });
}

headnorm_status fail_foreign() noexcept {
  return fail_thrown([] { return std::string("an exception that is no std::exception"); });
}

Error null_argument(const char* name) { return user_error(fmt::format("{} is null", name), "give one (headnorm_c.h)"); }

Error wrong_size(const char* name) {
  return user_error(fmt::format("{} has a struct_size that this library (headnorm {}) does not understand", name, HEADNORM_VERSION),
                    fmt::format("fill it with its ..._init() function, or use the library that the program was built for"));
}

}  // namespace headnorm::c_api

extern "C" {

const char* headnorm_last_error(void) { return headnorm::c_api::last_error.message.c_str(); }
const char* headnorm_last_remedy(void) { return headnorm::c_api::last_error.remedy.c_str(); }
const char* headnorm_version(void) { return HEADNORM_VERSION; }
}
