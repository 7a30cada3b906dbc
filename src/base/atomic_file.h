// atomic_file.h - writes a file so that it appears whole or not at all: temporary file in the same folder, write,
// fsync, rename, fsync of the folder.
//
// ls_atomic_file_open follows a symbolic link: the file that it leads to is replaced, and the link stays. It never
// replaces a pipe, a terminal, /dev/null or /dev/stdout, but writes to it directly. A pipe needs its reader within 2
// seconds. Folders, block devices and sockets are refused. A temporary is always a new file (O_EXCL), never an existing
// file of that name.
#ifndef LS_BASE_ATOMIC_FILE_H
#define LS_BASE_ATOMIC_FILE_H

#include <stddef.h>
#include <stdint.h>
#include "base/files.h"
#include "base/status.h"

typedef struct ls_atomic_file ls_atomic_file;

// Starts to write the file `path`, which appears at the commit. Errors are LS_STORAGE, or LS_DEVICE without memory.
// After a failed write, the commit fails too, and removes the temporary; a file that it would have replaced stays.
LS_CHECKED ls_status ls_atomic_file_open(const char *path, ls_atomic_file **out);
// Opens a file of a cache folder (cache_file.h), which can be made again. The commit replaces a file, link or pipe of
// this name; it is never written to. The file is not flushed to the disk, so readers must verify a hash. Also removes
// temporaries of `path` that are more than an hour old. A younger one may belong to a running process.
LS_CHECKED ls_status ls_atomic_file_open_cache(const char *path, ls_atomic_file **out);
void ls_atomic_file_write(ls_atomic_file *file, const void *data, size_t bytes); // remembers the first error
// Return the length and the ls_hash of the data written so far.
size_t ls_atomic_file_bytes(const ls_atomic_file *file);
uint64_t ls_atomic_file_hash(const ls_atomic_file *file);
LS_CHECKED ls_status ls_atomic_file_commit(ls_atomic_file *file); // always frees `file`
void ls_atomic_file_abandon(ls_atomic_file *file);                // removes the temporary and frees `file`
// Checks early whether ls_atomic_file_open can write `path`. Leaves no file. Of a file that is written directly, such
// as a pipe, it checks only the permission to write.
LS_CHECKED ls_status ls_atomic_file_check(const char *path);

// Removes all temporaries of `path`, as killed processes leave them. Call it only if a lock guarantees that nobody
// writes `path` now. Files that cannot be removed stay.
void ls_atomic_file_clean(const char *path);

LS_CHECKED ls_status ls_write_file(const char *path, const void *data, size_t bytes); // open, write and commit

#endif
