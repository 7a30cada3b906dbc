#include "base/atomic_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/hash.h"

struct ls_atomic_file {
    int fd;
    ls_status status; // the first failure
    char *path, *temporary;
    ls_hasher *hasher;
    size_t bytes;
};

static ls_status fail_io(const char *action, const char *path, const char *call) {
    return ls_fail(LS_STORAGE, "%s: cannot %s: %s: %s", path, action, call, strerror(errno));
}

static void free_file(ls_atomic_file *file) {
    ls_hasher_free(file->hasher);
    free(file->path);
    free(file->temporary);
    free(file);
}

ls_status ls_atomic_file_open(const char *path, ls_atomic_file **out) {
    ls_atomic_file *file = calloc(1, sizeof *file);
    if (!file) return ls_fail(LS_DEVICE, "%s: no memory to write it", path);
    file->path = strdup(path);
    file->hasher = ls_hasher_new();
    if (!file->path || !file->hasher || asprintf(&file->temporary, "%s.tmp-%ld", path, (long)getpid()) < 0) {
        file->temporary = NULL;
        free_file(file);
        return ls_fail(LS_DEVICE, "%s: no memory to write it", path);
    }
    // No O_EXCL: what an earlier process of the same number left after a crash may go.
    file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file->fd < 0) {
        ls_status status = fail_io("create", path, "open");
        free_file(file);
        return status;
    }
    *out = file;
    return LS_SUCCESS;
}

void ls_atomic_file_write(ls_atomic_file *file, const void *data, size_t bytes) {
    const char *at = data;
    while (bytes && !ls_failed(file->status)) {
        ssize_t written = write(file->fd, at, bytes);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) {
            file->status = fail_io("write", file->path, "write");
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

static ls_status sync_folder_for(const char *path, const char *folder) {
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return fail_io("finish", path, "open of its folder");
    // Some network file systems cannot sync folders and say EINVAL: they keep no more than this.
    ls_status status = fsync(fd) == 0 || errno == EINVAL ? LS_SUCCESS : fail_io("finish", path, "fsync of its folder");
    close(fd);
    return status;
}

ls_status ls_sync_folder(const char *path) {
    return sync_folder_for(path, path);
}

// The folder's entry must reach the disk too, or a crash may bring the old file back.
static ls_status sync_folder(const char *path) {
    char *folder = strdup(path);
    if (!folder) return ls_fail(LS_DEVICE, "%s: no memory to finish writing", path);
    char *slash = strrchr(folder, '/');
    if (slash) slash[slash == folder] = 0; // "/name" is in "/"
    ls_status status = sync_folder_for(path, slash ? folder : ".");
    free(folder);
    return status;
}

ls_status ls_atomic_file_commit(ls_atomic_file *file) {
    ls_status status = file->status;
    if (!ls_failed(status) && fsync(file->fd) != 0) status = fail_io("write", file->path, "fsync");
    if (close(file->fd) != 0 && !ls_failed(status)) status = fail_io("write", file->path, "close");
    if (!ls_failed(status) && rename(file->temporary, file->path) != 0)
        status = fail_io("finish", file->path, "rename");
    if (ls_failed(status)) {
        unlink(file->temporary);
    } else {
        status = sync_folder(file->path);
    }
    free_file(file);
    return status;
}

void ls_atomic_file_abandon(ls_atomic_file *file) {
    if (!file) return;
    close(file->fd);
    unlink(file->temporary);
    free_file(file);
}

// "NAME.tmp-4711"
static int is_temporary_of(const char *entry, const char *name) {
    size_t length = strlen(name);
    if (strncmp(entry, name, length) != 0 || strncmp(entry + length, ".tmp-", 5) != 0) return 0;
    const char *number = entry + length + 5;
    return *number && strspn(number, "0123456789") == strlen(number);
}

void ls_atomic_file_clean(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char *folder = slash ? strndup(path, (size_t)(slash - path + (slash == path))) : strdup(".");
    DIR *dir = folder ? opendir(folder) : NULL;
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (is_temporary_of(entry->d_name, name)) unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir) closedir(dir);
    free(folder);
}

ls_status ls_write_file(const char *path, const void *data, size_t bytes) {
    ls_atomic_file *file = NULL;
    LS_TRY(ls_atomic_file_open(path, &file));
    ls_atomic_file_write(file, data, bytes);
    return ls_atomic_file_commit(file);
}

// Reads to the end, or `most` bytes, growing: the size that stat gives is only a first guess (pipes, /proc, growth).
static ls_status read_all(int fd, const char *path, size_t guess, size_t most, char **data, size_t *bytes) {
    size_t capacity = (guess < most ? guess : most) + 1, length = 0;
    char *text = malloc(capacity + 1);
    while (text) {
        ssize_t got = read(fd, text + length, capacity - length);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            ls_status status = fail_io("read", path, "read");
            free(text);
            return status;
        }
        if (got == 0 || length + (size_t)got >= most) {
            length = got == 0 ? length : most;
            text[length] = 0;
            *data = text;
            *bytes = length;
            return LS_SUCCESS;
        }
        length += (size_t)got;
        if (length < capacity) continue;
        capacity *= 2;
        char *larger = realloc(text, capacity + 1);
        if (!larger) free(text);
        text = larger;
    }
    return ls_fail(LS_DEVICE, "%s: cannot read: no memory for %zu bytes", path, capacity);
}

ls_status ls_read_beginning(const char *path, size_t most, char **data, size_t *bytes) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail_io("read", path, "open");
    struct stat info;
    size_t guess = fstat(fd, &info) == 0 && info.st_size > 0 ? (size_t)info.st_size : 4096;
    ls_status status = read_all(fd, path, guess, most, data, bytes);
    close(fd);
    return status;
}

ls_status ls_read_file(const char *path, char **data, size_t *bytes) {
    return ls_read_beginning(path, SIZE_MAX, data, bytes);
}

ls_status ls_make_folders(const char *path) {
    char *partial = strdup(path);
    if (!partial) return ls_fail(LS_DEVICE, "%s: no memory to create it", path);
    ls_status status = LS_SUCCESS;
    for (char *end = partial; !ls_failed(status) && *end;) {
        end += strspn(end, "/");
        end += strcspn(end, "/");
        char kept = *end;
        *end = 0;
        if (*partial && mkdir(partial, 0777) != 0) {
            int error = errno;
            struct stat info; // what exists may also be refused with EACCES or EROFS instead of EEXIST
            if (stat(partial, &info) != 0 || !S_ISDIR(info.st_mode)) {
                errno = error == EEXIST ? ENOTDIR : error;
                status = fail_io("create the folder", partial, "mkdir");
            }
        } else if (*partial) {
            status = sync_folder(partial); // else a power cut could take it, with all that is synced in it
        }
        *end = kept;
    }
    free(partial);
    return status;
}

int ls_path_exists(const char *path) {
    return access(path, F_OK) == 0;
}

ls_status ls_path_join(char *dst, size_t bytes, const char *folder, const char *name) {
    int alone = name[0] == '/' || folder[0] == 0;
    const char *slash = alone || folder[strlen(folder) - 1] == '/' ? "" : "/";
    int length = snprintf(dst, bytes, "%s%s%s", alone ? "" : folder, slash, name);
    if (length >= 0 && (size_t)length < bytes) return LS_SUCCESS;
    return ls_fail(LS_USAGE, "path too long (%d characters, at most %zu): %s%s%s", length, bytes - 1,
        alone ? "" : folder, slash, name);
}
