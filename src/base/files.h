// files.h - reading files whole, folders, paths. Writing: atomic_file.h.
#ifndef LS_BASE_FILES_H
#define LS_BASE_FILES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include "base/status.h"

enum { LS_READ_BYTES_MAX = 64 << 20 }; // of a text that is read whole: a larger one is none of ours

// A regular file, open for reading. Nothing else is ever read: a pipe without a writer waits for ever, /dev/zero has
// no end.
typedef struct {
    const char *path; // borrowed
    int fd;           // -1: closed
    size_t bytes;
} ls_input;

// LS_STORAGE: missing, no permission, a folder, pipe or device. Symbolic links are followed.
LS_CHECKED ls_status ls_input_open(const char *path, ls_input *input);
// `bytes` bytes from `offset`, all of them: LS_STORAGE when the file ends earlier or the system reports an error.
LS_CHECKED ls_status ls_input_read(const ls_input *input, size_t offset, void *dst, size_t bytes);
void ls_input_close(ls_input *input); // closing twice is allowed

// Notes that this process reads the file, or the files of the folder: none of them may be replaced by a result.
// ls_input_open does so by itself.
void ls_note_read(const struct stat *info);
// May the file that an option names (`option`: "--out") be written? LS_USAGE: it is one that was noted, or lies in a
// folder that was noted, by whatever links and ways. To be called when all that the command reads has been opened.
LS_CHECKED ls_status ls_check_output(const char *option, const char *path);

// The whole file, with a 0 byte after it; free() it. LS_STORAGE with path and reason, and beyond LS_READ_BYTES_MAX.
LS_CHECKED ls_status ls_read_file(const char *path, char **data, size_t *bytes);
// The same of what is read once, in order: a file, a pipe, or by "-" standard input. Waits for its end.
LS_CHECKED ls_status ls_read_stream(const char *path, char **data, size_t *bytes);
// The whole file's first `most` bytes at most, as ls_read_file.
LS_CHECKED ls_status ls_read_beginning(const char *path, size_t most, char **data, size_t *bytes);

// The code of a failed call of the system: LS_DEVICE if it had no memory (ENOMEM), whatever it was about, else
// `otherwise`.
ls_code ls_io_code(int error, ls_code otherwise);
// LS_STORAGE, or LS_DEVICE without memory, with errno's reason: "PATH: cannot read: open: No such file or directory".
ls_status ls_fail_io(const char *action, const char *path, const char *call);
// What is no regular file, in words: "a folder", "a pipe"...
const char *ls_file_kind(const struct stat *info);

LS_CHECKED ls_status ls_make_folders(const char *path); // mkdir -p
// The folder's entries reach the disk.
LS_CHECKED ls_status ls_sync_folder(const char *path);
// The same of the folder that `path` lies in.
LS_CHECKED ls_status ls_sync_folder_of(const char *path);
// Bytes on the folder's file system: those that an ordinary user may still write, and all. Returns 0 if they are
// unknown: there is no such folder, or the file system reports no blocks at all (some of FUSE and of networks, a tmpfs
// without a limit).
int ls_path_room(const char *folder, uint64_t *unused, uint64_t *all);
// Is there room in that folder for files of so many bytes together, the largest of which has `largest`? LS_STORAGE:
// "PATH: WHAT 12 MiB, but only 3 MiB are free..." (what: "a checkpoint needs"). A quota is not seen; unknown room
// suffices.
LS_CHECKED ls_status ls_check_room(
    const char *folder, const char *path, const char *what, size_t bytes, size_t largest);
int ls_path_exists(const char *path);
// Are both names of one file, by links or by other ways to its folder? One that is not there is none. LS_STORAGE: it
// cannot be known.
LS_CHECKED ls_status ls_path_same(const char *a, const char *b, int *same);
// dst = folder + "/" + name, or name alone if it is absolute or folder is empty. LS_USAGE when longer than bytes.
LS_CHECKED ls_status ls_path_join(char *dst, size_t bytes, const char *folder, const char *name);

#endif
