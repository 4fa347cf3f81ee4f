# Installs the build, moves the installed tree, and configures, builds and runs a project that uses it from there.
# -D BUILD, SOURCE (of headnorm), WORK (scratch folder), GENERATOR (ON|OFF), CXX, MAKE (CMake generator), SANITIZE, LLVM_DIR

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "exit status ${status}: ${command}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first)
file(RENAME ${WORK}/first ${WORK}/moved)

# Where it was built or first installed must be written nowhere in the package.
file(GLOB_RECURSE package_files ${WORK}/moved/*.cmake)
list(LENGTH package_files count)
if(count LESS 4)
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

set(configure ${CMAKE_COMMAND} -G ${MAKE} -S ${SOURCE}/tests/install/consumer -D CMAKE_CXX_COMPILER=${CXX}
  -D CMAKE_PREFIX_PATH=${WORK}/moved -D SANITIZE=${SANITIZE} -D LLVM_DIR=${LLVM_DIR})

run(${configure} -B ${WORK}/runtime -D COMPONENT=runtime)
run(${CMAKE_COMMAND} --build ${WORK}/runtime)
run(${WORK}/runtime/consumer)

if(GENERATOR)
  run(${configure} -B ${WORK}/generator -D COMPONENT=generator)
  run(${CMAKE_COMMAND} --build ${WORK}/generator)
  run(${WORK}/generator/consumer)
  run(${WORK}/moved/bin/headnorm --version)
else()
  execute_process(COMMAND ${configure} -B ${WORK}/generator -D COMPONENT=generator
    RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE answer)
  if(status EQUAL 0 OR NOT answer MATCHES "HEADNORM_GENERATOR=OFF")
    message(FATAL_ERROR "asking a runtime-only package for the generator must fail and say why; it said: ${answer}")
  endif()
endif()
