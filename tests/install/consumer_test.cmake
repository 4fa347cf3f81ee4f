# Installs the build, moves the installed tree, and configures, builds and runs projects that use it from there.
# -D BUILD, WORK (scratch folder) and what use_package.cmake asks for

set(PREFIX ${WORK}/moved)
include(${CMAKE_CURRENT_LIST_DIR}/use_package.cmake)

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first)
file(RENAME ${WORK}/first ${PREFIX})

# Where it was built or first installed must be written nowhere in the package.
file(GLOB_RECURSE package_files ${PREFIX}/*.cmake ${PREFIX}/*.pc ${PREFIX}/*.h)
list(LENGTH package_files count)
if(count LESS 20)
  message(FATAL_ERROR "only ${count} package files were installed")
endif()
foreach(file IN LISTS package_files)
  file(READ ${file} text)
  foreach(path ${BUILD} ${SOURCE} ${WORK})
    string(FIND "${text}" "${path}" place)
    if(NOT place EQUAL -1)
      message(FATAL_ERROR "${file} names ${path}: the package cannot be moved")
    endif()
  endforeach()
endforeach()

# Each header can be included alone, and finds all that it includes among those installed. Those of a runtime-only package are some of
# the whole one's: that each can be alone is seen there, and one file has them all here.
file(GLOB_RECURSE headers RELATIVE ${PREFIX}/include ${PREFIX}/include/*.h)
list(TRANSFORM headers REPLACE "(.+)" "#include <\\1>\n" OUTPUT_VARIABLE includes)
if(NOT GENERATOR)
  string(CONCAT includes ${includes})
endif()
foreach(include IN LISTS includes)
  file(WRITE ${WORK}/header.cpp "${include}")
  run(${CXX} -std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Werror -I ${PREFIX}/include ${WORK}/header.cpp)
endforeach()

build_and_run(consumer runtime)
if(NOT SANITIZE)
  build_and_run(c_consumer c)
endif()
pkg_config_and_run(headnorm)
if(GENERATOR)
  build_and_run(consumer full)
  pkg_config_and_run(headnorm-full)
  run(${PREFIX}/bin/headnorm --version)
else()
  execute_process(COMMAND ${CMAKE_COMMAND} -G ${MAKE} -S ${SOURCE}/tests/install/consumer -B ${WORK}/full -D COMPONENT=full
      -D CMAKE_CXX_COMPILER=${CXX} -D CMAKE_PREFIX_PATH=${PREFIX}
    RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE answer)
  if(status EQUAL 0 OR NOT answer MATCHES "HEADNORM_GENERATOR=OFF")
    message(FATAL_ERROR "asking a runtime-only package for the generator must fail and say why; it said: ${answer}")
  endif()
endif()
