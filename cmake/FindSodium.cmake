# libsodium, for SHA-256. Prefers the static library, so that programs need no shared one. Defines Sodium::Sodium.
find_path(SODIUM_INCLUDE_DIR sodium/crypto_hash_sha256.h)
find_library(SODIUM_LIBRARY NAMES libsodium.a sodium)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Sodium REQUIRED_VARS SODIUM_LIBRARY SODIUM_INCLUDE_DIR)
if(Sodium_FOUND AND NOT TARGET Sodium::Sodium)
  add_library(Sodium::Sodium UNKNOWN IMPORTED)
  set_target_properties(Sodium::Sodium PROPERTIES IMPORTED_LOCATION ${SODIUM_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${SODIUM_INCLUDE_DIR})
endif()
