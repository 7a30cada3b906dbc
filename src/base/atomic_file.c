#include "base/atomic_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/hash.h"
#include "base/pinned_folder.h"
#include "base/memory.h"

enum { LINKS_MAX = 40, TEMPORARIES_MAX = 100, LEFT_OVER_SECONDS = 3600 };
static const double reader_wait = 2, reader_poll = 0.01; // seconds

struct ls_atomic_file {
    int fd;
    ls_status status;      // first failed write
    char *path;            // path given by the caller
    char target[PATH_MAX]; // path that is written, from find_target; for a file of a cache, `path` itself
    char *temporary;       // path of the temporary, in the folder of target; NULL: target is written directly
    int may_be_lost;       // 1: nothing is flushed to the disk, so a crash of the system may lose the file
    ls_hasher *hasher;
    size_t bytes;
};

// --- following symbolic links

// Replaces the link `target` by the path in it. Returns 0 if `target` is not a link or the new path is too long.
static int follow_link(char target[PATH_MAX]) {
    char to[PATH_MAX];
    ssize_t length = ls_pinned_readlink(target, to, sizeof to - 1);
    char *slash = strrchr(target, '/');
    size_t folder = length <= 0 || to[0] == '/' || !slash ? 0 : (size_t)(slash - target) + 1;
    if (length <= 0 || folder + (size_t)length >= PATH_MAX) return 0;
    memcpy(target + folder, to, (size_t)length);
    target[folder + (size_t)length] = 0;
    return 1;
}

// Whether the link lies in /proc, as links to open files do; /dev/stdout leads to such a link. Its text can be read as
// a path, but only opening the link itself reliably reaches the open file.
static int is_open_file(const struct stat *link) {
    struct stat proc;
    return stat("/proc", &proc) == 0 && link->st_dev == proc.st_dev;
}

// Finds the path to write to. *direct = 1: the file exists and is not a regular file, or a link of /proc leads to it as
// an open file. It must then be written directly, by opening `target`, whose links are not followed to their end.
// *direct = 0: `target` is `path` with all links followed.
static ls_status find_target(const char *path, char target[PATH_MAX], int *direct) {
    struct stat info;
    int there = ls_pinned_stat(path, &info) == 0;
    if (!there && errno != ENOENT) return ls_fail_io("create", path, "stat"); // such as another user's link in /tmp
    if (there && (S_ISDIR(info.st_mode) || S_ISBLK(info.st_mode) || S_ISSOCK(info.st_mode)))
        return ls_fail(LS_STORAGE, "%s: cannot write: is %s, expected the name of a file", path, ls_file_kind(&info));
    if (snprintf(target, PATH_MAX, "%s", path) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return ls_fail_io("create", path, "open");
    }
    *direct = there && !S_ISREG(info.st_mode);
    for (int links = 0; !*direct && links < LINKS_MAX; links++) {
        int known = ls_pinned_lstat(target, &info) == 0;
        if (!known && errno != ENOENT) return ls_fail_io("create", path, "lstat");
        if (!known || !S_ISLNK(info.st_mode)) break;
        *direct = there && is_open_file(&info);
        if (!*direct && !follow_link(target)) break;
    }
    return LS_SUCCESS;
}

// --- writing

static void free_file(ls_atomic_file *file) {
    ls_hasher_free(file->hasher);
    free(file->path);
    free(file->temporary);
    free(file);
}

// Opens the target for appending: /dev/stdout may be a file that already has contents. A reader that a shell has just
// started may not have opened its pipe yet, so this waits a short time. O_NONBLOCK: do not wait for ever for a reader.
static ls_status open_direct(ls_atomic_file *file) {
    for (double waited = 0;; waited += reader_poll) {
        file->fd = ls_pinned_open(file->target, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
        if (file->fd >= 0 || errno != ENXIO || waited >= reader_wait) break;
        ls_clock_sleep(reader_poll);
    }
    if (file->fd < 0 && errno == ENXIO)
        return ls_fail(
            LS_STORAGE, "%s: cannot write: is a pipe that no process reads: start its reader first", file->path);
    if (file->fd < 0) return ls_fail_io("write", file->path, "open");
    int flags = fcntl(file->fd, F_GETFL);
    if (flags >= 0 && fcntl(file->fd, F_SETFL, flags & ~O_NONBLOCK) == 0) return LS_SUCCESS;
    ls_status status = ls_fail_io("write", file->path, "fcntl");
    close(file->fd);
    return status;
}

// Creates "NAME.tmp-4711" (4711: process id). If a killed process or another host took that name: "NAME.tmp-4711-1"...
static ls_status open_temporary(ls_atomic_file *file) {
    for (int number = 0; number < TEMPORARIES_MAX; number++) {
        char more[16] = "";
        if (number) snprintf(more, sizeof more, "-%d", number);
        free(file->temporary);
        file->temporary = ls_new_textf("%s.tmp-%ld%s", file->target, (long)getpid(), more);
        file->fd = ls_pinned_open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (file->fd >= 0) return LS_SUCCESS;
        if (errno != EEXIST) break;
    }
    return ls_fail_io("create", file->path, "open");
}

static ls_atomic_file *new_file(const char *path) {
    ls_atomic_file *file = ls_new(1, sizeof *file, "%s", path);
    file->path = ls_new_text(path);
    file->hasher = ls_hasher_new();
    return file;
}

ls_status ls_atomic_file_open(const char *path, ls_atomic_file **out) {
    ls_atomic_file *file = new_file(path);
    int direct = 0;
    ls_status status = find_target(path, file->target, &direct);
    LS_THEN(status, direct ? open_direct(file) : open_temporary(file));
    return LS_GIVE_OR_FREE(status, file, out, free_file);
}

// Whether `entry` is a temporary of the file `name`: "NAME.tmp-4711" or "NAME.tmp-4711-1".
static int is_temporary_of(const char *entry, const char *name) {
    size_t length = strlen(name);
    if (strncmp(entry, name, length) != 0 || strncmp(entry + length, ".tmp-", 5) != 0) return 0;
    const char *number = entry + length + 5;
    return *number && strspn(number, "0123456789-") == strlen(number);
}

// Removes the temporaries of `path` that were last written at or before the time `before` (seconds since 1970, by the
// file system's clock).
static void clean(const char *path, time_t before) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char *folder = slash ? ls_new_textf("%.*s", (int)(slash - path + (slash == path)), path) : ls_new_text(".");
    DIR *dir = ls_pinned_opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        struct stat info;
        if (is_temporary_of(entry->d_name, name) &&
            fstatat(dirfd(dir), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 && info.st_mtime <= before)
            unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir) closedir(dir);
    free(folder);
}

void ls_atomic_file_clean(const char *path) {
    clean(path, INT64_MAX);
}

// Removes temporaries that are an hour older than the new one, whose time stamp is the file system's current time.
static void clean_left_over(const ls_atomic_file *file) {
    struct stat info;
    if (fstat(file->fd, &info) == 0) clean(file->target, info.st_mtime - LEFT_OVER_SECONDS);
}

ls_status ls_atomic_file_open_cache(const char *path, ls_atomic_file **out) {
    ls_atomic_file *file = new_file(path);
    file->may_be_lost = 1;
    ls_status status = ls_path_join(file->target, sizeof file->target, "", path);
    LS_THEN(status, open_temporary(file));
    if (!ls_failed(status)) clean_left_over(file);
    return LS_GIVE_OR_FREE(status, file, out, free_file);
}

void ls_atomic_file_write(ls_atomic_file *file, const void *data, size_t bytes) {
    const char *at = data;
    while (bytes && !ls_failed(file->status)) {
        ssize_t written = write(file->fd, at, bytes);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) {
            file->status = ls_fail_io("write", file->path, "write");
            return;
        }
        ls_hasher_add(file->hasher, at, (size_t)written);
        file->bytes += (size_t)written;
        at += written;
        bytes -= (size_t)written;
    }
}

size_t ls_atomic_file_bytes(const ls_atomic_file *file) {
    return file->bytes;
}

uint64_t ls_atomic_file_hash(const ls_atomic_file *file) {
    return ls_hasher_hash(file->hasher);
}

// Renames the temporary to its final name, or removes it if that fails. Then syncs the folder, because otherwise a
// crash may bring the old file back; a file that may be lost needs no sync.
static ls_status put_in_place(const ls_atomic_file *file) {
    if (ls_pinned_rename(file->temporary, file->target) == 0)
        return file->may_be_lost ? LS_SUCCESS : ls_sync_folder_of(file->target);
    ls_status status = ls_fail_io("finish", file->path, "rename");
    ls_pinned_unlink(file->temporary);
    return status;
}

ls_status ls_atomic_file_commit(ls_atomic_file *file) {
    ls_status status = file->status;
    if (file->temporary && !file->may_be_lost && !ls_failed(status) && fsync(file->fd) != 0)
        status = ls_fail_io("write", file->path, "fsync");
    if (close(file->fd) != 0) LS_THEN(status, ls_fail_io("write", file->path, "close"));
    if (file->temporary && ls_failed(status)) ls_pinned_unlink(file->temporary);
    if (file->temporary) LS_THEN(status, put_in_place(file));
    free_file(file);
    return status;
}

void ls_atomic_file_abandon(ls_atomic_file *file) {
    if (!file) return;
    close(file->fd);
    if (file->temporary) ls_pinned_unlink(file->temporary);
    free_file(file);
}

ls_status ls_atomic_file_check(const char *path) {
    char target[PATH_MAX];
    int direct;
    LS_TRY(find_target(path, target, &direct));
    if (direct) return ls_pinned_access(target, W_OK) == 0 ? LS_SUCCESS : ls_fail_io("write", path, "access");
    ls_atomic_file *file = NULL;
    LS_TRY(ls_atomic_file_open(path, &file));
    ls_atomic_file_abandon(file);
    return LS_SUCCESS;
}

ls_status ls_write_file(const char *path, const void *data, size_t bytes) {
    ls_atomic_file *file = NULL;
    LS_TRY(ls_atomic_file_open(path, &file));
    ls_atomic_file_write(file, data, bytes);
    return ls_atomic_file_commit(file);
}
