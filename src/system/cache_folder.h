// cache_folder.h - the folder that caches results of slow searches for the next start.
#ifndef LS_SYSTEM_CACHE_FOLDER_H
#define LS_SYSTEM_CACHE_FOLDER_H

#include <stddef.h>

// Writes the path of "lockstep" in the user's cache folder (XDG_CACHE_HOME, else HOME/.cache) to `path`; it need not
// exist. Returns path, or NULL if neither variable is an absolute path or the result does not fit.
const char *ls_cache_folder(char *path, size_t bytes);

#endif
