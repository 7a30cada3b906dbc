#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include "base/pinned_folder.h"
#include "base/memory.h"
#include "base/text.h"

ls_code ls_io_code(int error, ls_code otherwise) {
    return error == ENOMEM ? LS_DEVICE : otherwise;
}

ls_status ls_fail_io(const char *action, const char *path, const char *call) {
    return ls_fail(ls_io_code(errno, LS_STORAGE), "%s: cannot %s: %s: %s", path, action, call, strerror(errno));
}

const char *ls_file_kind(const struct stat *info) {
    switch (info->st_mode & S_IFMT) {
    case S_IFREG:
        return "a regular file";
    case S_IFDIR:
        return "a folder";
    case S_IFIFO:
        return "a pipe";
    case S_IFSOCK:
        return "a socket";
    case S_IFBLK:
        return "a block device";
    default:
        return "a device";
    }
}

// --- files that were read and must not be overwritten

typedef struct {
    dev_t device;
    ino_t number;
} file_id;

enum { NOTED_MAX = 4096 }; // a data set of pictures counts once, by its folder

static pthread_mutex_t noted_lock = PTHREAD_MUTEX_INITIALIZER;
static file_id noted[NOTED_MAX];
static size_t noted_count;

static int is_noted(const struct stat *info) {
    for (size_t i = 0; i < noted_count; i++)
        if (noted[i].device == info->st_dev && noted[i].number == info->st_ino) return 1;
    return 0;
}

void ls_note_read(const struct stat *info) {
    pthread_mutex_lock(&noted_lock);
    if (noted_count < NOTED_MAX && !is_noted(info)) noted[noted_count++] = (file_id){ info->st_dev, info->st_ino };
    pthread_mutex_unlock(&noted_lock);
}

// Says whether the regular file is empty or begins as the pattern says. The file is not recorded as one that was read.
static int may_replace(const char *path, const char *pattern) {
    char text[513];
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    const ssize_t got = fd < 0 ? -1 : pread(fd, text, sizeof text - 1, 0);
    if (fd >= 0) close(fd);
    text[got < 0 ? 0 : got] = '\0';
    return got == 0 || fnmatch(pattern, text, 0) == 0;
}

ls_status ls_check_output(const char *option, const char *path, const char *kind, const char *pattern) {
    char folder[PATH_MAX];
    struct stat info;
    if (stat(path, &info) != 0) return LS_SUCCESS; // a new file
    const int is_regular = S_ISREG(info.st_mode);
    pthread_mutex_lock(&noted_lock);
    int read = is_noted(&info);
    if (!read && realpath(path, folder)) {
        *(strrchr(folder, '/') + 1) = '\0';
        read = stat(folder, &info) == 0 && is_noted(&info);
    }
    pthread_mutex_unlock(&noted_lock);
    if (!read && is_regular && !may_replace(path, pattern))
        return ls_fail(LS_USAGE, "%s %s: is there, and no %s: it stays; name another file", option, path, kind);
    if (!read) return LS_SUCCESS;
    return ls_fail(
        LS_USAGE, "%s %s: this command reads that file, and would replace it: name another file", option, path);
}

// --- reading

ls_status ls_input_open(const char *path, ls_input *input) {
    *input = (ls_input){ path, -1, 0 };
    // O_NONBLOCK: opening a pipe without a writer must not wait; regular files ignore it.
    int fd = ls_pinned_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0) return ls_fail_io("read", path, "open");
    struct stat info;
    ls_status status = LS_SUCCESS;
    if (fstat(fd, &info) != 0)
        status = ls_fail_io("read", path, "fstat");
    else if (!S_ISREG(info.st_mode))
        status = ls_fail(LS_STORAGE, "%s: cannot read: is %s, expected a regular file", path, ls_file_kind(&info));
    if (ls_failed(status)) {
        close(fd);
        return status;
    }
    input->fd = fd;
    input->bytes = (size_t)info.st_size;
    ls_note_read(&info);
    return LS_SUCCESS;
}

ls_status ls_input_read(const ls_input *input, size_t offset, void *dst, size_t bytes) {
    char *to = dst;
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(input->fd, to + done, bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return ls_fail_io("read", input->path, "pread");
        if (got == 0)
            return ls_fail(LS_STORAGE, "%s: cannot read: ends at byte %zu, expected %zu: cut off while it was read",
                input->path, offset + done, offset + bytes);
        done += (size_t)got;
    }
    return LS_SUCCESS;
}

void ls_input_close(ls_input *input) {
    if (input->fd >= 0) close(input->fd);
    input->fd = -1;
}

// Reads the file, but at most `most` bytes. The buffer grows: the size from fstat is wrong for /proc and for files that
// grow.
static ls_status read_all(const ls_input *input, size_t most, char **data, size_t *bytes) {
    size_t guess = input->bytes ? input->bytes : 4096;
    size_t capacity = (guess < most ? guess : most) + 1, length = 0;
    char *text = malloc(capacity + 1);
    while (text) {
        ssize_t got = read(input->fd, text + length, capacity - length);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            ls_status status = ls_fail_io("read", input->path, "read");
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
    return ls_no_memory(capacity, "%s", input->path);
}

ls_status ls_read_beginning(const char *path, size_t most, char **data, size_t *bytes) {
    ls_input input;
    LS_TRY(ls_input_open(path, &input));
    ls_status status = read_all(&input, most, data, bytes);
    ls_input_close(&input);
    return status;
}

static ls_status check_limit(const char *path, char **data, size_t bytes) {
    if (bytes <= LS_READ_BYTES_MAX) return LS_SUCCESS;
    free(*data);
    *data = NULL;
    return ls_fail(
        LS_STORAGE, "%s: cannot read: has more than %d bytes, the limit for such a file", path, LS_READ_BYTES_MAX);
}

ls_status ls_read_file(const char *path, char **data, size_t *bytes) {
    LS_TRY(ls_read_beginning(path, (size_t)LS_READ_BYTES_MAX + 1, data, bytes));
    return check_limit(path, data, *bytes);
}

ls_status ls_read_stream(const char *path, char **data, size_t *bytes) {
    ls_input input = { "standard input", STDIN_FILENO, 0 };
    const int is_named = strcmp(path, "-") != 0;
    if (is_named) input = (ls_input){ path, ls_pinned_open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY, 0), 0 };
    if (input.fd < 0) return ls_fail_io("read", path, "open");
    ls_status status = read_all(&input, (size_t)LS_READ_BYTES_MAX + 1, data, bytes);
    if (is_named) ls_input_close(&input);
    LS_THEN(status, check_limit(input.path, data, *bytes));
    return status;
}

// --- folders

static ls_status sync_folder_for(const char *path, const char *folder) {
    int fd = ls_pinned_open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0) return ls_fail_io("finish", path, "open of its folder");
    // Some network file systems cannot sync folders and return EINVAL. Nothing more can be done there.
    ls_status status =
        fsync(fd) == 0 || errno == EINVAL ? LS_SUCCESS : ls_fail_io("finish", path, "fsync of its folder");
    close(fd);
    return status;
}

ls_status ls_sync_folder(const char *path) {
    return sync_folder_for(path, path);
}

ls_status ls_sync_folder_of(const char *path) {
    char *folder = ls_new_text(path), *slash = strrchr(folder, '/');
    if (slash) slash[slash == folder] = 0; // "/name" is in "/"
    ls_status status = sync_folder_for(path, slash ? folder : ".");
    free(folder);
    return status;
}

ls_status ls_make_folders(const char *path) {
    char *partial = ls_new_text(path);
    ls_status status = LS_SUCCESS;
    for (char *end = partial + ls_pinned_length(path); !ls_failed(status) && *end;) {
        end += strspn(end, "/");
        end += strcspn(end, "/");
        char kept = *end;
        *end = 0;
        if (*partial && ls_pinned_mkdir(partial, 0777) != 0) {
            int error = errno;
            struct stat info; // an existing folder may give EACCES or EROFS instead of EEXIST
            if (ls_pinned_stat(partial, &info) != 0 || !S_ISDIR(info.st_mode)) {
                errno = error == EEXIST ? ENOTDIR : error;
                status = ls_fail_io("create the folder", partial, "mkdir");
            }
        } else if (*partial) {
            status = ls_sync_folder_of(partial); // otherwise a power cut could remove the folder
        }
        *end = kept;
    }
    free(partial);
    return status;
}

int ls_path_room(const char *folder, uint64_t *unused, uint64_t *all) {
    struct statvfs info;
    int fd = ls_pinned_open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    int answered = fd >= 0 && fstatvfs(fd, &info) == 0;
    if (fd >= 0) close(fd);
    const uint64_t block = !answered ? 0 : info.f_frsize ? info.f_frsize : info.f_bsize;
    if (block == 0 || info.f_blocks == 0) return 0;
    *unused = block * info.f_bavail;
    *all = block * info.f_blocks;
    return 1;
}

ls_status ls_check_room(const char *folder, const char *path, const char *what, size_t bytes, size_t largest) {
    uint64_t unused, all;
    struct rlimit limit;
    char needs[32], has[32];
    double needed = (double)bytes * 1.01 + 65536; // includes the file system's own overhead
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < largest)
        return ls_fail(LS_STORAGE, "%s: %s a file of %s, but files have at most %s (ulimit -f): raise that limit", path,
            what, ls_text_bytes(needs, largest), ls_text_bytes(has, limit.rlim_cur));
    if (!ls_path_room(folder, &unused, &all) || (double)unused >= needed)
        return LS_SUCCESS; // enough room, or unknown room: then a failed write will report it
    return ls_fail(LS_STORAGE,
        "%s: %s %s, but only %s are free on that file system: free some space, or move the run elsewhere by "
        "--run-dir",
        path, what, ls_text_bytes(needs, (uint64_t)needed), ls_text_bytes(has, unused));
}

// --- paths

int ls_path_exists(const char *path) {
    return ls_pinned_access(path, F_OK) == 0;
}

ls_status ls_path_same(const char *a, const char *b, int *same) {
    struct stat x, y;
    const char *missing = ls_pinned_stat(a, &x) != 0 ? a : ls_pinned_stat(b, &y) != 0 ? b : NULL;
    *same = !missing && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    return missing && errno != ENOENT && errno != ENOTDIR ? ls_fail_io("look at", missing, "stat") : LS_SUCCESS;
}

ls_status ls_path_join(char *dst, size_t bytes, const char *folder, const char *name) {
    int alone = name[0] == '/' || folder[0] == 0;
    const char *slash = alone || folder[strlen(folder) - 1] == '/' ? "" : "/";
    int length = snprintf(dst, bytes, "%s%s%s", alone ? "" : folder, slash, name);
    if (length >= 0 && (size_t)length < bytes) return LS_SUCCESS;
    return ls_fail(LS_USAGE, "path too long (%d characters, at most %zu): %s%s%s", length, bytes - 1,
        alone ? "" : folder, slash, name);
}
