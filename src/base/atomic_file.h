// atomic_file.h - writes a file so that it appears whole or not at all: temporary file in the same folder, write,
// fsync, rename, fsync of the folder.
//
// A symbolic link is followed: the file that it leads to is replaced, and the link stays. A pipe, a terminal, /dev/null
// or /dev/stdout is never replaced; the data is written to it directly. A pipe must get its reader within 2 s. Folders,
// block devices and sockets are refused. Temporaries are new files (O_EXCL), so no existing file is overwritten.
#ifndef LS_BASE_ATOMIC_FILE_H
#define LS_BASE_ATOMIC_FILE_H

#include <stddef.h>
#include <stdint.h>
#include "base/files.h"
#include "base/status.h"

typedef struct ls_atomic_file ls_atomic_file;

// Starts to write the file `path`, which appears at the commit. Errors are LS_STORAGE with path, call and reason. After
// a failed write, commit fails too and leaves no file.
LS_CHECKED ls_status ls_atomic_file_open(const char *path, ls_atomic_file **out);
// Opens a file of a cache folder (cache_file.h), which can be made again. Anything that has this name is replaced, also
// a link or a pipe, and is never written to. The file is not flushed to the disk, so readers must verify a hash. Also
// removes temporaries of `path` that are more than an hour old. A younger one may belong to a running process.
LS_CHECKED ls_status ls_atomic_file_open_cache(const char *path, ls_atomic_file **out);
void ls_atomic_file_write(ls_atomic_file *file, const void *data, size_t bytes); // remembers the first error
// Return the length and the ls_hash of the data written so far.
size_t ls_atomic_file_bytes(const ls_atomic_file *file);
uint64_t ls_atomic_file_hash(const ls_atomic_file *file);
LS_CHECKED ls_status ls_atomic_file_commit(ls_atomic_file *file); // always frees `file`
void ls_atomic_file_abandon(ls_atomic_file *file);                // removes the temporary and frees `file`
// Checks early whether ls_atomic_file_open would succeed, and returns its error if not. Leaves no file and opens no
// pipe.
LS_CHECKED ls_status ls_atomic_file_check(const char *path);

// Removes all temporaries of `path` that killed processes left. Call it only if a lock guarantees that no other process
// writes `path`. Files that cannot be removed stay.
void ls_atomic_file_clean(const char *path);

LS_CHECKED ls_status ls_write_file(const char *path, const void *data, size_t bytes); // open, write and commit

#endif
