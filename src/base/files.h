// files.h - paths, folders, and reading whole files. Writing: atomic_file.h.
#ifndef LS_BASE_FILES_H
#define LS_BASE_FILES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include "base/status.h"

enum { LS_READ_BYTES_MAX = 64 << 20 }; // largest file that is read whole (ls_read_file and others)

// A regular file, open for reading. Other kinds of files are refused: a pipe without a writer would block for ever, and
// /dev/zero has no end.
typedef struct {
    const char *path; // borrowed
    int fd;           // -1: closed
    size_t bytes;
} ls_input;

// Opens a regular file for reading; follows symbolic links. LS_STORAGE if the file is missing, not readable, or is a
// folder, pipe or device.
LS_CHECKED ls_status ls_input_open(const char *path, ls_input *input);
// Reads exactly `bytes` bytes from `offset`. LS_STORAGE if the file ends earlier or the system reports an error.
LS_CHECKED ls_status ls_input_read(const ls_input *input, size_t offset, void *dst, size_t bytes);
void ls_input_close(ls_input *input); // closing twice is allowed

// Records that this process reads a file, or the files of a folder, so that ls_check_output protects them from being
// overwritten. ls_input_open records its file by itself. Only the first 4096 files and folders are recorded.
void ls_note_read(const struct stat *info);
// Checks that writing the file `path`, named by an option (`option`: "--out"), overwrites no input. LS_USAGE if the
// file, or the folder it lies in, was recorded by ls_note_read, also if `path` leads there through links. Call it after
// all files that the command reads were opened. LS_USAGE also if the file is there and is of another kind: not empty,
// and its first 512 bytes do not match the pattern of fnmatch. kind: for the message, "page of this program".
LS_CHECKED ls_status ls_check_output(const char *option, const char *path, const char *kind, const char *pattern);

// Reads the whole file and adds a 0 byte; free *data. LS_STORAGE, with path and reason: the file cannot be read or has
// more than LS_READ_BYTES_MAX bytes. LS_DEVICE without memory.
LS_CHECKED ls_status ls_read_file(const char *path, char **data, size_t *bytes);
// Like ls_read_file for a file, a pipe or standard input (path "-"). Waits until the input ends.
LS_CHECKED ls_status ls_read_stream(const char *path, char **data, size_t *bytes);
// Like ls_read_file, but reads only the first `most` bytes, or all of a shorter file.
LS_CHECKED ls_status ls_read_beginning(const char *path, size_t most, char **data, size_t *bytes);

// Returns the status code for a failed system call: LS_DEVICE if the system had no memory (ENOMEM), else `otherwise`.
ls_code ls_io_code(int error, ls_code otherwise);
// Makes a failure with errno's reason: LS_STORAGE, or LS_DEVICE without memory, and the text "PATH: cannot read: open:
// No such file or directory".
ls_status ls_fail_io(const char *action, const char *path, const char *call);
// Returns the kind of a file in words: "a folder", "a pipe"...
const char *ls_file_kind(const struct stat *info);

LS_CHECKED ls_status ls_make_folders(const char *path); // mkdir -p; flushes new entries to the disk
// Flushes the folder's entries to the disk.
LS_CHECKED ls_status ls_sync_folder(const char *path);
// Like ls_sync_folder, for the folder that contains `path`.
LS_CHECKED ls_status ls_sync_folder_of(const char *path);
// *all: the bytes of the folder's file system. *unused: those that an ordinary user may still fill. Returns 0 if they
// are unknown: the folder cannot be opened, or the file system reports no blocks at all (some FUSE and network file
// systems, a tmpfs without a limit).
int ls_path_room(const char *folder, uint64_t *unused, uint64_t *all);
// Checks that the folder has room for files of `bytes` bytes in total, and that `ulimit -f` allows the largest of them,
// of `largest` bytes. LS_STORAGE: "PATH: WHAT 12 MiB, but only 3 MiB are free..." (what: "a checkpoint needs"). Quotas
// are not checked. If the room is unknown, the check passes.
LS_CHECKED ls_status ls_check_room(
    const char *folder, const char *path, const char *what, size_t bytes, size_t largest);
int ls_path_exists(const char *path);
// *same: whether both paths lead to the same file, also through links. A file that does not exist is the same as no
// other. LS_STORAGE if the system does not tell.
LS_CHECKED ls_status ls_path_same(const char *a, const char *b, int *same);
// dst = folder + "/" + name, or name alone if it is absolute or folder is empty. LS_USAGE if the result does not fit.
LS_CHECKED ls_status ls_path_join(char *dst, size_t bytes, const char *folder, const char *name);

#endif
