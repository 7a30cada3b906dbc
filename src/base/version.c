#include "base/version.h"

#include "lockstep_version.h" // generated, see lockstep_version in cmake/lockstep.cmake

const char *ls_version(void) {
    return LS_VERSION_TEXT;
}

const char *ls_version_compiler(void) {
    return LS_VERSION_COMPILER;
}

const char *ls_version_libraries(void) {
    return LS_VERSION_LIBRARIES;
}
