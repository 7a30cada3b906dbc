// atomic_file.h - a file appears whole or not at all: temporary name beside it, write, fsync, rename, fsync of the
// folder.
//
// A symbolic link is followed: the file that it leads to is replaced, the link stays. What is no regular file (a pipe
// whose reader comes within 2 s, a terminal, /dev/null, /dev/stdout) is never replaced but written to as it is; folders,
// block devices and sockets are refused. Temporaries are new files (O_EXCL): nothing that lies under their name is touched.
#ifndef LS_BASE_ATOMIC_FILE_H
#define LS_BASE_ATOMIC_FILE_H

#include <stddef.h>
#include <stdint.h>
#include "base/files.h"
#include "base/status.h"

typedef struct ls_atomic_file ls_atomic_file;

// Errors are LS_STORAGE with path, call and reason. After a failed write, commit fails
// with the same message and leaves no file.
LS_CHECKED ls_status ls_atomic_file_open(const char *path, ls_atomic_file **out);
// For a file of a cache folder (cache_file.h), which can be made again. Whatever has the name is replaced and never
// written to: a link itself, not the file that it leads to; a pipe. The file is not flushed to the disk, so readers
// verify a hash. Temporaries that killed processes left more than an hour ago are removed; a younger one may belong
// to another process that starts now.
LS_CHECKED ls_status ls_atomic_file_open_cache(const char *path, ls_atomic_file **out);
void ls_atomic_file_write(ls_atomic_file *file, const void *data, size_t bytes); // notes the first error
// Of what was written so far: its length, and its ls_hash.
size_t ls_atomic_file_bytes(const ls_atomic_file *file);
uint64_t ls_atomic_file_hash(const ls_atomic_file *file);
LS_CHECKED ls_status ls_atomic_file_commit(ls_atomic_file *file); // frees file in any case
void ls_atomic_file_abandon(ls_atomic_file *file);                // removes the temporary, frees
// Whether open would succeed by now, for results that come hours later; leaves nothing, and opens no pipe.
LS_CHECKED ls_status ls_atomic_file_check(const char *path);

// Removes all temporaries beside `path`, which killed processes left. Only for a caller that knows (by a lock) that no
// other process writes `path`. What cannot be removed stays.
void ls_atomic_file_clean(const char *path);

LS_CHECKED ls_status ls_write_file(const char *path, const void *data, size_t bytes); // all of the above

#endif
