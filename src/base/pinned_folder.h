// pinned_folder.h - a folder that is held while files in it are made, and the system's calls by path that take it into account.
//
// A run's folder may be moved, renamed or replaced while it is written. What is named by a path at or below the
// held folder's is then still found through the folder itself (openat), so nothing lands in one that has taken its
// place; every other path means what it always does. Paths keep the form in which the folder's was set.
// Process-wide on purpose: one run, one folder.
#ifndef LS_BASE_PINNED_FOLDER_H
#define LS_BASE_PINNED_FOLDER_H

#include <dirent.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

enum { LS_PINNED_PATH_BYTES = 4096 };

// fd: of the folder at `path`, open; borrowed until release. Before threads that use what is below are started.
void ls_pin_folder(const char *path, int fd);
void ls_unpin_folder(void);

typedef enum { LS_PINNED_IN_PLACE, LS_PINNED_MOVED, LS_PINNED_REMOVED } ls_pinned_state;
// Does the path still lead to the held folder? where: where that is now, as far as the system shows ("" if not).
ls_pinned_state ls_pinned_look(char where[LS_PINNED_PATH_BYTES]);
// How many bytes of `path` name the held folder: what is above them is not ours to make. 0: it is not below.
size_t ls_pinned_length(const char *path);

// As the calls of these names, errno included.
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
