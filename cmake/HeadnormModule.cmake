# One static library per directory, with the warnings and include path that all share.
include_guard()

set(HEADNORM_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion)

# Header-only libraries that no public header of ours includes: users of the installed libraries need not have them.
set(HEADNORM_HEADER_ONLY fmt::fmt-header-only nlohmann_json::nlohmann_json)

# headnorm_module(name SOURCES a.cpp ... LIBS other ... PRIVATE_LIBS ... [PRECOMPILED header ...])
# The headers that are parsed once for all files are those of core, unless others are named.
function(headnorm_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS;PRIVATE_LIBS;PRECOMPILED" ${ARGN})
  add_library(headnorm_${name} STATIC ${ARG_SOURCES})
  target_include_directories(headnorm_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  set_target_properties(headnorm_${name} PROPERTIES EXPORT_NAME ${name})
  foreach(library IN LISTS HEADNORM_HEADER_ONLY)
    list(TRANSFORM ARG_LIBS REPLACE "^${library}$" "$<BUILD_INTERFACE:${library}>")
    list(TRANSFORM ARG_PRIVATE_LIBS REPLACE "^${library}$" "$<BUILD_INTERFACE:${library}>")
  endforeach()
  target_compile_options(headnorm_${name} PRIVATE ${HEADNORM_WARNINGS})
  target_link_libraries(headnorm_${name} PUBLIC ${ARG_LIBS} PRIVATE ${ARG_PRIVATE_LIBS})
  if(ARG_PRECOMPILED)
    target_precompile_headers(headnorm_${name} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/formatting.h ${ARG_PRECOMPILED})
  else()
    target_precompile_headers(headnorm_${name} REUSE_FROM headnorm_core)
  endif()
endfunction()

# headnorm_link_quickly(target): for programs that stay in the build. LLVM is in most of them, and GNU ld takes seconds for each; what
# is shipped is linked by the compiler's own linker all the same.
find_program(HEADNORM_QUICK_LINKER NAMES ld.mold ld.lld ld.gold DOC "Linker for programs that stay in the build")
function(headnorm_link_quickly target)
  if(HEADNORM_QUICK_LINKER)
    get_filename_component(linker ${HEADNORM_QUICK_LINKER} NAME)
    string(REGEX REPLACE "^ld\\." "" linker ${linker})
    target_link_options(${target} PRIVATE -fuse-ld=${linker})
  endif()
endfunction()

# GCC 12 no longer knows a precompiled <string> for a system header, and takes what is inlined of it for an overflow.
set(HEADNORM_TEST_WARNINGS ${HEADNORM_WARNINGS} -Wno-array-bounds)

# headnorm_test(name SOURCES a.cpp ... LIBS ... [LABELS ...] [TIMEOUT seconds])
function(headnorm_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LIBS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_compile_options(${name} PRIVATE ${HEADNORM_TEST_WARNINGS})
  target_precompile_headers(${name} REUSE_FROM headnorm_test_precompiled)
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} headnorm_core GTest::gtest_main)
  headnorm_link_quickly(${name})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()
