// atomic_file.h - a file appears whole or not at all: temporary name beside it,
// write, fsync, rename, fsync of the folder.
#ifndef LS_BASE_ATOMIC_FILE_H
#define LS_BASE_ATOMIC_FILE_H

#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

typedef struct ls_atomic_file ls_atomic_file;

// Errors are LS_STORAGE with path, call and reason. After a failed write, commit fails
// with the same message and leaves no file.
LS_CHECKED ls_status ls_atomic_file_open(const char *path, ls_atomic_file **out);
void ls_atomic_file_write(ls_atomic_file *file, const void *data, size_t bytes); // keeps the first error
// Of what was written so far: its length, and its ls_hash.
size_t ls_atomic_file_bytes(const ls_atomic_file *file);
uint64_t ls_atomic_file_hash(const ls_atomic_file *file);
LS_CHECKED ls_status ls_atomic_file_commit(ls_atomic_file *file); // frees file in any case
void ls_atomic_file_abandon(ls_atomic_file *file);                // removes the temporary, frees

// Removes the temporaries that killed processes left beside `path`;
// none that is being written. What cannot be removed stays.
void ls_atomic_file_clean(const char *path);

LS_CHECKED ls_status ls_write_file(const char *path, const void *data, size_t bytes); // all of the above
// The whole file, with a 0 byte after it; free() it. LS_STORAGE with path and reason.
LS_CHECKED ls_status ls_read_file(const char *path, char **data, size_t *bytes);
// The same of the file's first `most` bytes at most, for files that are small or wrong (/dev/zero does not end).
LS_CHECKED ls_status ls_read_beginning(const char *path, size_t most, char **data, size_t *bytes);
LS_CHECKED ls_status ls_make_folders(const char *path); // mkdir -p
// The folder's entries reach the disk.
LS_CHECKED ls_status ls_sync_folder(const char *path);
int ls_path_exists(const char *path);
// dst = folder + "/" + name, or name alone if it is absolute or folder is empty. LS_USAGE when longer than bytes.
LS_CHECKED ls_status ls_path_join(char *dst, size_t bytes, const char *folder, const char *name);

#endif
