#include "core/result.h"

namespace headnorm {

const char* to_text(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::user:
      return "user";
    case ErrorKind::environment:
      return "environment";
    case ErrorKind::internal:
      return "internal";
  }
  return "internal";
}

}  // namespace headnorm
