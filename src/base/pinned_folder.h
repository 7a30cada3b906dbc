// pinned_folder.h - keeps a run's folder open while files are written in it, and offers system calls that use it.
//
// A run's folder may be moved, renamed or replaced during the run. Paths at or below the pinned folder's path are
// resolved through the open folder (openat), so no file lands in another folder that now has this path. All other paths
// work as usual. Pass paths in the same form as to ls_pin_folder, absolute or relative. A run has one folder: each
// scope (scope.h) pins its own.
#ifndef LS_BASE_PINNED_FOLDER_H
#define LS_BASE_PINNED_FOLDER_H

#include <dirent.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>
#include "base/scope.h"

// Pins the folder at `path`. fd: the open folder, borrowed until ls_unpin_folder. Call it before any thread that uses
// paths in the folder is started.
void ls_pin_folder(const char *path, int fd);
void ls_unpin_folder(void);

typedef enum { LS_PINNED_IN_PLACE, LS_PINNED_MOVED, LS_PINNED_REMOVED } ls_pinned_state;
// Tells whether the folder is still at its path, was moved or was removed. where: the path of a moved folder, or "" if
// the system hides it; otherwise "".
ls_pinned_state ls_pinned_look(char where[LS_PINNED_PATH_BYTES]);
// Returns the number of bytes at the start of `path` that name the pinned folder, so that callers create nothing above
// it. Returns 0 if `path` is outside the folder or no folder is pinned.
size_t ls_pinned_length(const char *path);

// Work like the system calls of the same names, errno included. Paths in the pinned folder lead to the open folder.
int ls_pinned_open(const char *path, int flags, mode_t mode);
int ls_pinned_stat(const char *path, struct stat *info);
int ls_pinned_lstat(const char *path, struct stat *info);
int ls_pinned_access(const char *path, int mode);
int ls_pinned_mkdir(const char *path, mode_t mode);
int ls_pinned_unlink(const char *path);
int ls_pinned_rmdir(const char *path);
int ls_pinned_rename(const char *from, const char *to);
ssize_t ls_pinned_readlink(const char *path, char *dst, size_t bytes);
DIR *ls_pinned_opendir(const char *path);

#endif
