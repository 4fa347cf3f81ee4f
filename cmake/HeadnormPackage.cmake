# `cpack` in a build folder makes headnorm-VERSION-Linux-ARCH.tar.gz and headnorm_VERSION_ARCH.deb.
set(CPACK_GENERATOR TGZ DEB)
set(CPACK_PACKAGE_NAME headnorm)
set(CPACK_PACKAGE_CONTACT "The headnorm authors")
set(CPACK_PACKAGE_FILE_NAME headnorm-${PROJECT_VERSION}-Linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)

# What shared libraries of the system it needs is read from the files, if dpkg-shlibdeps is there.
find_program(HEADNORM_SHLIBDEPS dpkg-shlibdeps)
if(HEADNORM_SHLIBDEPS)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
endif()
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libsodium-dev, llvm-22-dev")  # to link the static C++ libraries
# Other packages that link libheadnorm learn from `shlibs` what they depend on.
configure_file(cmake/debian/shlibs.in debian/shlibs @ONLY)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_BINARY_DIR}/debian/shlibs)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
