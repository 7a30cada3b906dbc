// cache_file.h - files of a cache folder that other users may write to as well (data.cache may be shared).
//
// A file counts only if it is a regular file with a single name, and the last part of its path is not a symbolic link.
// In a folder that everybody may write to, the file must also belong to this user or to root. So a planted link never
// leads to another file, and no pipe or device can block the program. The folder itself may be a link. Files are
// written by ls_atomic_file_open_cache, which replaces anything that has the same name.
#ifndef LS_BASE_CACHE_FILE_H
#define LS_BASE_CACHE_FILE_H

#include <stddef.h>
#include "base/status.h"

// Opens an existing file. access: O_RDONLY or O_RDWR. Returns -1 if the file does not exist or is not to be trusted:
// not a regular file, or possibly planted by another user.
int ls_cache_file_open(const char *path, int access);
// Opens a file for reading and writing, and creates it if it is missing. A link, a pipe or another file that is not to
// be trusted is removed first, but never a regular file of another user. Returns -1 with errno if this is not possible.
int ls_cache_file_create(const char *path);

// Reads a whole file and adds a 0 byte; free *text. LS_STORAGE if ls_cache_file_open would refuse the file, or if it is
// over LS_READ_BYTES_MAX.
LS_CHECKED ls_status ls_cache_file_read(const char *path, char **text, size_t *bytes);

#endif
