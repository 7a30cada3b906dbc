#include "fuzz/target.h"

#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void fuzz_fail(const char *file, int line, const char *condition, const char *format, ...) {
    fprintf(stderr, "%s:%d: expected %s: ", file, line, condition);
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    abort();
}

static struct {
    int fd; // 0: not opened yet
    char path[32];
} files[FUZZ_FILES];

const char *fuzz_file(int number, const void *data, size_t bytes) {
    if (files[number].fd == 0) {
        files[number].fd = memfd_create("input", MFD_CLOEXEC);
        fuzz_expect(files[number].fd > 0, "memfd_create failed");
        snprintf(files[number].path, sizeof files[number].path, "/proc/self/fd/%d", files[number].fd);
    }
    int fd = files[number].fd;
    fuzz_expect(ftruncate(fd, 0) == 0, "ftruncate failed");
    fuzz_expect(bytes == 0 || pwrite(fd, data, bytes, 0) == (ssize_t)bytes, "cannot write %zu bytes", bytes);
    return files[number].path;
}

static char folder_path[256];

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info, (void)kind, (void)where;
    return remove(path);
}

static void remove_folder(void) {
    nftw(folder_path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *fuzz_folder(void) {
    if (*folder_path) return folder_path;
    const char *base = getenv("TMPDIR");
    snprintf(folder_path, sizeof folder_path, "%s/lockstep-fuzz-XXXXXX", base && *base ? base : "/tmp");
    fuzz_expect(mkdtemp(folder_path) != NULL, "mkdtemp %s failed", folder_path);
    atexit(remove_folder);
    return folder_path;
}

void fuzz_link(const char *folder, const char *name, int number) {
    char path[512], there[sizeof files[0].path] = "";
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (number >= 0 && readlink(path, there, sizeof there - 1) > 0 && strcmp(there, files[number].path) == 0) return;
    unlink(path);
    if (number >= 0) fuzz_expect(symlink(files[number].path, path) == 0, "symlink %s failed", path);
}

const uint8_t *fuzz_part(const uint8_t **data, size_t *bytes, size_t *part_bytes) {
    size_t length = *bytes < 2 ? 0 : (size_t)(*data)[0] << 8 | (*data)[1], prefix = *bytes < 2 ? *bytes : 2;
    const uint8_t *part = *data + prefix;
    *bytes -= prefix;
    *part_bytes = length < *bytes ? length : *bytes;
    *data = part + *part_bytes;
    *bytes -= *part_bytes;
    return part;
}

int fuzz_refused(ls_status status, ls_code expected, ls_code or_else) {
    if (!ls_failed(status)) return 0;
    fuzz_expect(status.code == expected || status.code == or_else, "code %d: %s", status.code, status.text);
    fuzz_expect(status.text && *status.text, "code %d without a message", status.code);
    for (const char *at = status.text; *at; at++)
        fuzz_expect((unsigned char)*at >= 32 && *at != 127, "control character %d in: %s", *at, status.text);
    return 1;
}
