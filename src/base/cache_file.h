// cache_file.h - files of a cache folder that other users may write to as well (data.cache may be shared).
//
// A file is trusted only if it is a regular file with at most one name, and the last part of its path is no symbolic
// link. In a folder that everybody may write to, the file must also belong to this user or to root. So a planted link
// never leads to another file, and no pipe or device can block the program. The folder itself may be a link.
// ls_atomic_file_open_cache writes such files anew; ls_cache_file_create opens them for writing in place.
#ifndef LS_BASE_CACHE_FILE_H
#define LS_BASE_CACHE_FILE_H

#include <stddef.h>
#include "base/status.h"

// Opens an existing file. access: O_RDONLY or O_RDWR. Returns the file descriptor, or -1 with errno if the file cannot
// be opened or is not trusted.
int ls_cache_file_open(const char *path, int access);
// Opens a file for reading and writing, and creates it if it is missing. First removes a link, a pipe, a device or a
// file with several names. Returns the file descriptor, or -1 with errno on failure, also for a file with a single name
// that is not trusted.
int ls_cache_file_create(const char *path);

// Reads a whole file and adds a 0 byte; free *text. LS_STORAGE: the file cannot be opened or read, is not trusted, or
// has more than LS_READ_BYTES_MAX bytes. LS_DEVICE without memory.
LS_CHECKED ls_status ls_cache_file_read(const char *path, char **text, size_t *bytes);

#endif
