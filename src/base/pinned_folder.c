#include "base/pinned_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/scope.h"

_Static_assert(LS_PINNED_PATH_BYTES == PATH_MAX, "what the system calls a path");

static ls_pinned_scope *pinned(void) {
    return &ls_scope_now()->pinned;
}

void ls_pin_folder(const char *path, int fd) {
    ls_pinned_scope *self = pinned();
    self->length = strlen(path);
    while (self->length > 1 && path[self->length - 1] == '/') self->length--;
    if (self->length >= sizeof self->path) return; // the system has already refused such a long path
    memcpy(self->path, path, self->length);
    self->path[self->length] = 0;
    self->fd = fd;
}

void ls_unpin_folder(void) {
    pinned()->fd = -1;
}

size_t ls_pinned_length(const char *path) {
    const ls_pinned_scope *self = pinned();
    if (self->fd < 0 || strncmp(path, self->path, self->length) != 0) return 0;
    return path[self->length] == '/' || path[self->length] == 0 ? self->length : 0;
}

// The first two arguments of openat, fstatat, mkdirat...
typedef struct {
    int fd;
    const char *name;
} place;

static place place_of(const char *path) {
    size_t length = ls_pinned_length(path);
    if (!length) return (place){ AT_FDCWD, path };
    const char *name = path + length + strspn(path + length, "/");
    return (place){ pinned()->fd, *name ? name : "." };
}

// Tells whether the path still leads to the pinned folder. The folder was moved if the path leads to nothing or to
// another file. After other errors (a missing right) it counts as in place.
ls_pinned_state ls_pinned_look(char where[LS_PINNED_PATH_BYTES]) {
    const ls_pinned_scope *self = pinned();
    struct stat ours, there;
    char link[64];
    where[0] = 0;
    if (self->fd < 0 || fstat(self->fd, &ours) != 0) return LS_PINNED_IN_PLACE;
    if (ours.st_nlink == 0) return LS_PINNED_REMOVED;
    if (stat(self->path, &there) == 0) {
        if (there.st_dev == ours.st_dev && there.st_ino == ours.st_ino) return LS_PINNED_IN_PLACE;
    } else if (errno != ENOENT && errno != ENOTDIR) {
        return LS_PINNED_IN_PLACE;
    }
    snprintf(link, sizeof link, "/proc/self/fd/%d", self->fd);
    ssize_t length = readlink(link, where, LS_PINNED_PATH_BYTES - 1);
    where[length > 0 ? length : 0] = 0;
    return LS_PINNED_MOVED;
}

int ls_pinned_open(const char *path, int flags, mode_t mode) {
    place at = place_of(path);
    return openat(at.fd, at.name, flags, mode);
}

int ls_pinned_stat(const char *path, struct stat *info) {
    place at = place_of(path);
    return fstatat(at.fd, at.name, info, 0);
}

int ls_pinned_lstat(const char *path, struct stat *info) {
    place at = place_of(path);
    return fstatat(at.fd, at.name, info, AT_SYMLINK_NOFOLLOW);
}

int ls_pinned_access(const char *path, int mode) {
    place at = place_of(path);
    return faccessat(at.fd, at.name, mode, 0);
}

int ls_pinned_mkdir(const char *path, mode_t mode) {
    place at = place_of(path);
    return mkdirat(at.fd, at.name, mode);
}

int ls_pinned_unlink(const char *path) {
    place at = place_of(path);
    return unlinkat(at.fd, at.name, 0);
}

int ls_pinned_rmdir(const char *path) {
    place at = place_of(path);
    return unlinkat(at.fd, at.name, AT_REMOVEDIR);
}

int ls_pinned_rename(const char *from, const char *to) {
    place source = place_of(from), target = place_of(to);
    return renameat(source.fd, source.name, target.fd, target.name);
}

ssize_t ls_pinned_readlink(const char *path, char *dst, size_t bytes) {
    place at = place_of(path);
    return readlinkat(at.fd, at.name, dst, bytes);
}

DIR *ls_pinned_opendir(const char *path) {
    int fd = ls_pinned_open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir && fd >= 0) {
        int error = errno;
        close(fd);
        errno = error;
    }
    return dir;
}
