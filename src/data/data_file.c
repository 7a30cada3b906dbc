#include "data/data_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

ls_status ls_data_file_open(const char *path, ls_input *file) {
    *file = (ls_input){ path, -1, 0 };
    // O_NONBLOCK: opening a pipe without a writer must not wait; regular files ignore it.
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        const char *hint = errno == EACCES ? "; make it readable for this user" : "";
        return ls_fail(ls_io_code(errno, LS_DATA), "%s: cannot open: %s%s", path, strerror(errno), hint);
    }
    struct stat info;
    ls_status status = LS_SUCCESS;
    if (fstat(fd, &info) != 0) {
        status = ls_fail(ls_io_code(errno, LS_DATA), "%s: cannot read its size: %s", path, strerror(errno));
    } else if (S_ISDIR(info.st_mode)) {
        status = ls_fail(LS_DATA, "%s: is a folder, expected a file; name a file, or move the folder elsewhere", path);
    } else if (!S_ISREG(info.st_mode)) {
        status = ls_fail(LS_DATA, "%s: is a device or a pipe, expected a regular file", path);
    } else if (info.st_size == 0) {
        status = ls_fail(LS_DATA, "%s: is empty (0 bytes); fetch it again, or move it away", path);
    }
    if (ls_failed(status)) {
        close(fd);
        return status;
    }
    file->fd = fd;
    file->bytes = (size_t)info.st_size;
    return LS_SUCCESS;
}

void ls_data_file_note(const ls_input *file) {
    struct stat info;
    if (fstat(file->fd, &info) == 0) ls_note_read(&info);
}

ls_status ls_data_file_read(const ls_input *file, size_t offset, void *dst, size_t bytes) {
    ls_status status = ls_input_read(file, offset, dst, bytes);
    if (status.code == LS_STORAGE) status.code = LS_DATA;
    return status;
}
