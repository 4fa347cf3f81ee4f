# Uses an installed headnorm as projects of others do. Included; expects PREFIX (of the installation), WORK (scratch folder), SOURCE (of
# headnorm), GENERATOR (ON|OFF), CXX, CC, MAKE (CMake generator), SANITIZE, LLVM_DIR

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "exit status ${status}: ${command}")
  endif()
endfunction()

# build_and_run(project component): configures, builds and runs `consumer` of tests/install/<project>.
function(build_and_run project component)
  set(folder ${WORK}/${project}_${component})
  run(${CMAKE_COMMAND} -G ${MAKE} -S ${SOURCE}/tests/install/${project} -B ${folder} -D COMPONENT=${component}
    -D CMAKE_CXX_COMPILER=${CXX} -D CMAKE_C_COMPILER=${CC} -D CMAKE_PREFIX_PATH=${PREFIX} -D SANITIZE=${SANITIZE} -D LLVM_DIR=${LLVM_DIR})
  run(${CMAKE_COMMAND} --build ${folder})
  run(${folder}/consumer)
endfunction()

# pkg_config_and_run(package): the C consumer by compiler and pkg-config alone.
function(pkg_config_and_run package)
  find_program(PKG_CONFIG NAMES pkg-config pkgconf)
  if(NOT PKG_CONFIG OR SANITIZE)
    message(STATUS "SKIPPED: pkg-config ${package}")
    return()
  endif()
  file(GLOB folder ${PREFIX}/lib*/pkgconfig ${PREFIX}/lib/*/pkgconfig)
  set(ENV{PKG_CONFIG_LIBDIR} ${folder})
  execute_process(COMMAND ${PKG_CONFIG} --cflags --libs ${package} OUTPUT_VARIABLE flags
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  execute_process(COMMAND ${PKG_CONFIG} --variable=libdir ${package} OUTPUT_VARIABLE libdir
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  run(${CC} -std=c99 -Wall -Wextra -pedantic -Werror -o ${WORK}/${package}_consumer ${SOURCE}/tests/install/c_consumer/consumer.c
    ${flags} -Wl,-rpath,${libdir})
  run(${WORK}/${package}_consumer)
endfunction()
