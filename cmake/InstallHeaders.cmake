# Run at installation. Copies public headers below include/headnorm and lets them include one another by headnorm/..., so that the
# include path of a user need not hold folders of such common names as core/.
# SOURCE (of headnorm), DESTINATION (absolute), HEADERS: list of FROM=TO
foreach(header IN LISTS HEADERS)
  string(REPLACE "=" ";" names "${header}")
  list(GET names 0 from)
  list(GET names 1 to)
  file(READ ${SOURCE}/${from} text)
  string(REGEX REPLACE "#include \"((core|runtime|generator)/[^\"]*)\"" "#include \"headnorm/\\1\"" text "${text}")
  set(place ${DESTINATION}/headnorm/${to})
  message(STATUS "Installing: ${place}")
  file(WRITE ${place} "${text}")
  list(APPEND CMAKE_INSTALL_MANIFEST_FILES ${place})
endforeach()
