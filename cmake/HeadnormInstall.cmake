# What `cmake --install` lays down: the runtime library with its headers and the package `headnorm` (component runtime), and, where
# the generator is built, the command and the generator's libraries (component generator). The tree can be moved as a whole.
include(CMakePackageConfigHelpers)

set(HEADNORM_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/headnorm)

# headnorm_install(component targets...): libraries in an export set of their own, so that runtime users need no LLVM.
function(headnorm_install component)
  install(TARGETS ${ARGN} EXPORT headnorm_${component} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT headnorm_${component} NAMESPACE headnorm:: FILE headnorm-${component}.cmake DESTINATION ${HEADNORM_PACKAGE_DIR})
endfunction()

# headnorm_install_headers(folder headers...): below include/headnorm, in the folder they are included by.
function(headnorm_install_headers folder)
  list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/${folder}/)
  install(FILES ${ARGN} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/headnorm/${folder})
endfunction()

headnorm_install(runtime headnorm_core headnorm_database headnorm_runtime)
headnorm_install_headers(core artifact.h codegen_backend.h digest.h dtype.h kernel_spec.h launch_abi.h plan.h result.h schedule.h target.h)
headnorm_install_headers(runtime device.h executor.h headnorm.h kernel_cache.h runtime.h)
headnorm_install_headers(runtime/cuda cuda_device.h)
headnorm_install_headers(runtime/database database.h record.h)

if(HEADNORM_GENERATOR)
  headnorm_install(generator headnorm_program headnorm_algorithm headnorm_cuda_c headnorm_backend headnorm_generator)
  headnorm_install_headers(generator generator.h)
  headnorm_install_headers(generator/program builder.h cost.h evaluate.h program.h)
  if(TARGET headnorm)
    install(TARGETS headnorm RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    # Out of the loader's way: a stand-in for the CUDA driver must be asked for.
    install(TARGETS headnorm_emulator_driver LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/headnorm/emulator NAMELINK_SKIP)
  endif()
endif()

install(FILES LICENSE NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES cmake/FindSodium.cmake DESTINATION ${HEADNORM_PACKAGE_DIR})
configure_package_config_file(cmake/headnormConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/headnormConfig.cmake
  INSTALL_DESTINATION ${HEADNORM_PACKAGE_DIR})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/headnormConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/headnormConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/headnormConfigVersion.cmake
  DESTINATION ${HEADNORM_PACKAGE_DIR})
