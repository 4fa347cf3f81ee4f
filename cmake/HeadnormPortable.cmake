# With HEADNORM_PORTABLE, programs need nothing of the system they run on but libc with its libm, libdl and libpthread: the C++
# runtime, zlib and zstd are linked statically. To be included before LLVM is looked for; headnorm_link_zstd_statically() after.
if(HEADNORM_PORTABLE)
  add_link_options(-static-libstdc++ -static-libgcc)
  set(ZLIB_USE_STATIC_LIBS ON)
endif()

# LLVM's package asks for the shared zstd by the name of its target, whatever else is installed.
function(headnorm_link_zstd_statically)
  if(NOT HEADNORM_PORTABLE OR NOT TARGET zstd::libzstd_shared)
    return()
  endif()
  find_library(HEADNORM_STATIC_ZSTD NAMES libzstd.a REQUIRED)
  set_target_properties(zstd::libzstd_shared PROPERTIES IMPORTED_LOCATION ${HEADNORM_STATIC_ZSTD})
endfunction()

# headnorm_make_portable(target): for programs and shared libraries that leave this machine.
function(headnorm_make_portable target)
  if(HEADNORM_PORTABLE)
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/portable_arc4random.c)
  endif()
endfunction()
