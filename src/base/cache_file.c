#include "base/cache_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/files.h"
#include "base/memory.h"

enum { TRIES = 100 }; // attempts to create a file while other processes create and remove it

// O_NONBLOCK: opening a pipe must not wait for its other end; regular files ignore it.
static const int open_flags = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;

// Whether every user may create files in the folder of `path`. Returns 1 if the folder's permissions are unknown.
static int is_in_open_folder(const char *path) {
    char folder[PATH_MAX] = ".";
    struct stat info;
    const char *slash = strrchr(path, '/');
    const size_t length = slash ? (size_t)(slash - path) + 1 : 0; // with the slash: "/name" is in "/"
    if (length >= sizeof folder) return 1;
    if (slash) memcpy(folder, path, length), folder[length] = 0;
    return stat(folder, &info) != 0 || (info.st_mode & S_IWOTH);
}

static int has_no_other_name(const struct stat *info) {
    return S_ISREG(info->st_mode) && info->st_nlink <= 1; // 0 names: the file was replaced after it was opened
}

static int counts(const char *path, const struct stat *info) {
    return has_no_other_name(info) && (info->st_uid == geteuid() || info->st_uid == 0 || !is_in_open_folder(path));
}

int ls_cache_file_open(const char *path, int access) {
    struct stat info;
    const int fd = open(path, access | open_flags);
    if (fd < 0) return -1;
    if (fstat(fd, &info) == 0 && counts(path, &info)) return fd;
    close(fd);
    errno = EPERM;
    return -1;
}

int ls_cache_file_create(const char *path) {
    for (int i = 0; i < TRIES; i++) {
        struct stat info;
        int fd = ls_cache_file_open(path, O_RDWR);
        if (fd >= 0) return fd;
        const int error = errno;
        if (lstat(path, &info) == 0) {
            if (has_no_other_name(&info)) return errno = error, -1;
            if (unlink(path) != 0 && errno != ENOENT) return -1;
        }
        fd = open(path, O_RDWR | O_CREAT | O_EXCL | open_flags, 0666);
        if (fd >= 0 || errno != EEXIST) return fd;
    }
    return -1;
}

static ls_status read_whole(ls_input *input, char **text) {
    struct stat info;
    if (fstat(input->fd, &info) != 0) return ls_fail_io("read", input->path, "fstat");
    input->bytes = (size_t)info.st_size;
    if (input->bytes > LS_READ_BYTES_MAX)
        return ls_fail(LS_STORAGE, "%s: cannot read: has more than %d bytes", input->path, LS_READ_BYTES_MAX);
    LS_TRY(ls_try_new(text, input->bytes + 1, 1, "%s", input->path));
    ls_status status = ls_input_read(input, 0, *text, input->bytes);
    if (ls_failed(status)) {
        free(*text);
        *text = NULL;
    }
    return status;
}

ls_status ls_cache_file_read(const char *path, char **text, size_t *bytes) {
    ls_input input = { path, ls_cache_file_open(path, O_RDONLY), 0 };
    if (input.fd < 0) return ls_fail_io("read", path, "open");
    ls_status status = read_whole(&input, text);
    *bytes = input.bytes;
    ls_input_close(&input);
    return status;
}
