#include "run/live_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/files.h"
#include "base/pinned_folder.h"
#include "base/log.h"
#include "base/memory.h"

struct ls_live_file {
    FILE *stream;
    char *path;
    const char *what;
    ls_status first_failure;
    // Text of first_failure. Many failures may follow, and the ring of status texts would lose it.
    char failure_text[LS_STATUS_TEXT_BYTES];
};

static ls_status check_kind(int fd, const char *path) {
    struct stat info;
    if (fstat(fd, &info) != 0) return ls_fail_io("be written", path, "fstat");
    if (S_ISREG(info.st_mode) || S_ISCHR(info.st_mode)) return LS_SUCCESS;
    return ls_fail(
        LS_STORAGE, "%s: cannot be written: is %s, expected a regular file: move it away", path, ls_file_kind(&info));
}

// Opens the file so that each write goes to its end (O_APPEND), even if another program has cut it. Refuses a pipe,
// because a slow reader would delay training.
static ls_status open_stream(const char *path, int how, FILE **out) {
    const int fd = ls_pinned_open(path, O_RDWR | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC | how, 0666);
    if (fd < 0) return ls_fail(ls_io_code(errno, LS_STORAGE), "%s: cannot be written: %s", path, strerror(errno));
    const ls_status status = check_kind(fd, path);
    if (ls_failed(status)) {
        close(fd);
        return status;
    }
    *out = fdopen(fd, "a+");
    if (!*out) ls_out_of_memory(0, "writing %s", path);
    return LS_SUCCESS;
}

ls_status ls_live_file_open(const char *path, int how, const char *what, ls_live_file **out) {
    FILE *stream = NULL;
    LS_TRY(open_stream(path, how, &stream));
    ls_live_file *file = *out = ls_new(1, sizeof *file, "%s", path);
    *file = (ls_live_file){ .stream = stream, .path = ls_new_text(path), .what = what };
    return LS_SUCCESS;
}

// Returns the file's length; below 0: not a file on a disk. Asks the system, because another program may have cut it.
static off_t length_of(const ls_live_file *file) {
    struct stat info;
    return fstat(fileno(file->stream), &info) == 0 && S_ISREG(info.st_mode) ? info.st_size : -1;
}

ls_status ls_live_file_cut_half_line(const ls_live_file *file) {
    char tail[65536];
    errno = 0;
    const off_t end = length_of(file), from = end > (off_t)sizeof tail ? end - (off_t)sizeof tail : 0;
    if (end <= 0 && errno == 0) return LS_SUCCESS;
    const size_t got =
        end > 0 && fseeko(file->stream, from, SEEK_SET) == 0 ? fread(tail, 1, (size_t)(end - from), file->stream) : 0;
    const char *last = got > 0 ? memrchr(tail, '\n', got) : NULL;
    const off_t whole = last ? from + (last - tail) + 1 : from; // of a longer line only the tail is cut off
    if (got == (size_t)(end - from) && (whole == end || ftruncate(fileno(file->stream), whole) == 0) &&
        fseeko(file->stream, 0, SEEK_END) == 0)
        return LS_SUCCESS;
    return ls_fail(
        LS_STORAGE, "%s: cannot be read, to go on behind its last line: %s", file->path, strerror(errno ? errno : EIO));
}

void ls_live_file_fail(ls_live_file *file, ls_status status) {
    if (ls_failed(file->first_failure)) return;
    ls_warn("%s; training goes on", status.text);
    snprintf(file->failure_text, sizeof file->failure_text, "%s", status.text);
    file->first_failure = (ls_status){ status.code, file->failure_text };
}

// Removes a partly written piece: cuts the file back to length `whole`, where the next put will begin (O_APPEND).
static void take_back(const ls_live_file *file, off_t whole) {
    __fpurge(file->stream);
    clearerr(file->stream);
    if (whole >= 0 && ftruncate(fileno(file->stream), whole) != 0) return; // the failed write is reported, not this
}

void ls_live_file_put(ls_live_file *file, const void *data, size_t bytes) {
    const off_t whole = length_of(file);
    errno = 0;
    if (fwrite(data, 1, bytes, file->stream) == bytes && fflush(file->stream) == 0) return;
    const int error = errno;
    take_back(file, whole);
    ls_live_file_fail(file, ls_fail(LS_STORAGE, "%s: cannot write %s: %s", file->path, file->what, strerror(error)));
}

ls_status ls_live_file_close(ls_live_file *file) {
    ls_status status = LS_SUCCESS;
    if (ls_failed(file->first_failure)) status = ls_fail(file->first_failure.code, "%s", file->first_failure.text);
    if (fclose(file->stream) != 0)
        ls_keep_first(&status, ls_fail(ls_io_code(errno, LS_STORAGE), "%s: close: %s", file->path, strerror(errno)));
    free(file->path);
    free(file);
    return status;
}
