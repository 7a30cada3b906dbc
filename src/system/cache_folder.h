// cache_folder.h - where what took time to find out is cached for the next start.
#ifndef LS_SYSTEM_CACHE_FOLDER_H
#define LS_SYSTEM_CACHE_FOLDER_H

#include <stddef.h>

// "lockstep" in the user's cache folder (XDG_CACHE_HOME, else HOME/.cache), into path; NULL where there is none. It need
// not exist.
const char *ls_cache_folder(char *path, size_t bytes);

#endif
