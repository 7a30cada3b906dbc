# Runs at build time. Writes the header OUT with VERSION, git's description of SOURCE, COMPILER and LIBRARIES. If git
# is missing, or SOURCE is not the root of a checkout (for example a copy inside another repository), carry/commit
# replaces the description; scripts/carry.sh writes that file. Without that file there is no description.
find_program(GIT git)
set(described "")
if(GIT)
  execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse --show-prefix
    OUTPUT_VARIABLE inside RESULT_VARIABLE failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT failed AND inside STREQUAL "")
    execute_process(COMMAND ${GIT} -C ${SOURCE} describe --always --dirty --tags
      OUTPUT_VARIABLE described ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  endif()
endif()
if(NOT described AND EXISTS "${SOURCE}/carry/commit")
  file(STRINGS "${SOURCE}/carry/commit" described LIMIT_COUNT 1 REGEX "^[0-9A-Za-z.-]+$")
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
