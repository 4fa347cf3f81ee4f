# What `cmake --install` lays down, a tree that can be moved as a whole:
#   the shared libraries with the C header (component c; with the compiler: c_full)
#   the static C++ libraries with their headers (components runtime and generator)
#   the package `headnorm` for find_package, files for pkg-config, and the command
include(CMakePackageConfigHelpers)

set(HEADNORM_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/headnorm)

# headnorm_install(component targets...): libraries in an export set of their own, so that users need nothing that others need.
function(headnorm_install component)
  install(TARGETS ${ARGN} EXPORT headnorm_${component} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT headnorm_${component} NAMESPACE headnorm:: FILE headnorm-${component}.cmake DESTINATION ${HEADNORM_PACKAGE_DIR})
endfunction()

# headnorm_install_headers(folder headers...): below include/headnorm, in the folder they are included by.
function(headnorm_install_headers folder)
  foreach(header IN LISTS ARGN)
    set_property(GLOBAL APPEND PROPERTY HEADNORM_HEADERS ${folder}/${header}=${folder}/${header})
  endforeach()
endfunction()

# headnorm_pkg_config(name description libs requires...): for users of pkg-config; finds itself wherever the tree lies.
function(headnorm_pkg_config name description libs)
  file(RELATIVE_PATH HEADNORM_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
  string(REGEX REPLACE "/$" "" HEADNORM_PC_PREFIX ${HEADNORM_PC_PREFIX})
  set(HEADNORM_PC_NAME ${name})
  set(HEADNORM_PC_DESCRIPTION ${description})
  set(HEADNORM_PC_LIBS ${libs})
  configure_file(${PROJECT_SOURCE_DIR}/cmake/headnorm.pc.in ${name}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()

headnorm_install(c headnorm_c)
set_property(GLOBAL APPEND PROPERTY HEADNORM_HEADERS runtime/c_api/headnorm_c.h=headnorm_c.h)
headnorm_pkg_config(headnorm "Runtime of headnorm, C API" "-lheadnorm")

headnorm_install(runtime headnorm_core headnorm_database headnorm_runtime)
set_property(GLOBAL APPEND PROPERTY HEADNORM_HEADERS runtime/headnorm.h=headnorm.h)
headnorm_install_headers(core artifact.h codegen_backend.h digest.h dtype.h kernel_spec.h launch_abi.h plan.h result.h schedule.h
  target.h)
headnorm_install_headers(runtime device.h device_compiler.h executor.h jit_mode.h runtime.h)
headnorm_install_headers(runtime/cuda cuda_device.h)
headnorm_install_headers(runtime/database database.h layered_database.h merge.h record.h record_index.h shipped_tables.h
  table_digest.h trial_log.h)
headnorm_pkg_config(headnorm-cxx "Runtime of headnorm, C++ API, static"
  "-lheadnorm_runtime -lheadnorm_database -lheadnorm_core -lsodium -ldl -pthread")

if(HEADNORM_GENERATOR)
  headnorm_install(c_full headnorm_c_full)
  headnorm_pkg_config(headnorm-full "Runtime and compiler of headnorm, C API" "-lheadnorm_full")
  headnorm_install(generator headnorm_program headnorm_algorithm headnorm_cuda_c headnorm_backend headnorm_generator)
  headnorm_install_headers(generator generator.h)
  headnorm_install_headers(generator/program builder.h cost.h evaluate.h program.h)
  if(TARGET headnorm)
    install(TARGETS headnorm RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    # Out of the loader's way: a stand-in for the CUDA driver must be asked for.
    install(TARGETS headnorm_emulator_driver LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/headnorm/emulator NAMELINK_SKIP)
  endif()
endif()

get_property(HEADNORM_HEADERS GLOBAL PROPERTY HEADNORM_HEADERS)
install(CODE "set(SOURCE \"${PROJECT_SOURCE_DIR}\")
  set(DESTINATION \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}\")
  set(HEADERS \"${HEADNORM_HEADERS}\")")
install(SCRIPT cmake/InstallHeaders.cmake)
install(FILES LICENSE NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES cmake/FindSodium.cmake DESTINATION ${HEADNORM_PACKAGE_DIR})
configure_package_config_file(cmake/headnormConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/headnormConfig.cmake
  INSTALL_DESTINATION ${HEADNORM_PACKAGE_DIR})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/headnormConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/headnormConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/headnormConfigVersion.cmake
  DESTINATION ${HEADNORM_PACKAGE_DIR})
