# Run at build time: writes OUT from git's description of SOURCE; without git, or outside a checkout, from VERSION.
find_program(GIT git)
set(described "")
if(GIT)
  execute_process(COMMAND ${GIT} -C ${SOURCE} describe --always --dirty --tags
    OUTPUT_VARIABLE described ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
if(described)
  set(described "${VERSION} (${described})")
else()
  set(described "${VERSION}")
endif()
set(text "#define LS_VERSION_TEXT \"${described}\"
#define LS_VERSION_COMPILER \"${COMPILER}\"
#define LS_VERSION_LIBRARIES \"${LIBRARIES}\"
")
set(before "")
if(EXISTS "${OUT}")
  file(READ "${OUT}" before)
endif()
if(NOT text STREQUAL before)
  file(WRITE "${OUT}" "${text}")
endif()
