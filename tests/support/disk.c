// disk.c - preloaded (LD_PRELOAD) into a training run: a disk that is slow, full or failing below one folder.
//
// Environment
//   LOCKSTEP_TEST_DISK        a file of lines, read again before each call: the disk may change while the run goes on
//   LOCKSTEP_TEST_DISK_BELOW  the folder, an absolute path
// Lines
//   slow MS                 every call takes so long
//   pause N MS              the N-th call (from 1) waits that long before it is done, and says so first:
//                           LOCKSTEP_TEST_DISK with ".reached" after it holds the call and the path
//   log                     each call is a line in LOCKSTEP_TEST_DISK with ".log" after it
//   room BYTES ERROR        so many bytes can be written since the start of the process, then ERROR: ENOSPC or EDQUOT
//   fail CALL ERROR [TEXT]  every such call fails; only on paths with TEXT in them
//   hold N                  once N calls have failed, one that would fail waits until the lines are others (a minute at most)
// Calls are open (for writing), write, fsync, close (of what was open for writing), rename, mkdir, unlink, rmdir;
// what stdio does inside the C library is not seen.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

static atomic_long calls, bytes_written, failures;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int error_number(const char *name) {
    static const struct {
        const char *name;
        int number;
    } errors[] = { { "ENOSPC", ENOSPC }, { "EDQUOT", EDQUOT }, { "EIO", EIO }, { "EROFS", EROFS },
        { "EACCES", EACCES } };
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (strcmp(errors[i].name, name) == 0) return errors[i].number;
    return EIO;
}

static void wait_ms(long ms) {
    struct timespec left = { ms / 1000, ms % 1000 * 1000000 };
    while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;
}

static void note(const char *ending, const char *call, const char *path) {
    char name[4096], line[4200];
    snprintf(name, sizeof name, "%s%s", getenv("LOCKSTEP_TEST_DISK"), ending);
    int length = snprintf(line, sizeof line, "%s %s\n", call, path),
        fd = REAL(open)(name, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (fd < 0) return;
    ssize_t put = REAL(write)(fd, line, (size_t)length);
    (void)put;
    REAL(close)(fd);
}

enum { HELD = -1, HOLD_MS = 5, HOLDS_MAX = 60000 / HOLD_MS };

// What the file says about this call: 0, the error that it fails with, or HELD.
static int ask(const char *call, const char *path, long number, long bytes) {
    char line[256], word[32], name[32], text[128];
    long n, ms;
    int error = 0, hold = 0;
    FILE *file = fopen(getenv("LOCKSTEP_TEST_DISK"), "re");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "log", 3) == 0) note(".log", call, path);
        if (sscanf(line, "slow %ld", &ms) == 1) wait_ms(ms);
        if (sscanf(line, "pause %ld %ld", &n, &ms) == 2 && n == number) {
            note(".reached", call, path);
            wait_ms(ms);
        }
        if (sscanf(line, "room %ld %31s", &n, name) == 2 && bytes && atomic_load(&bytes_written) + bytes > n)
            error = error_number(name);
        if (sscanf(line, "hold %ld", &n) == 1) hold = atomic_load(&failures) >= n;
        int words = sscanf(line, "fail %31s %31s %127s", word, name, text);
        if (words >= 2 && strcmp(word, call) == 0 && (words == 2 || strstr(path, text))) error = error_number(name);
    }
    if (file) fclose(file);
    return error && hold ? HELD : error;
}

static int is_below(const char *path) {
    char absolute[8192];
    const char *below = getenv("LOCKSTEP_TEST_DISK_BELOW");
    if (!below || !getenv("LOCKSTEP_TEST_DISK")) return 0;
    if (path[0] != '/') {
        char folder[4000];
        if (!getcwd(folder, sizeof folder)) return 0;
        snprintf(absolute, sizeof absolute, "%s/%s", folder, path);
        path = absolute;
    }
    return strncmp(path, below, strlen(below)) == 0;
}

// -1, with errno, if the call is to fail.
static int pass(const char *call, const char *path, long bytes) {
    if (!is_below(path)) return 0;
    const long number = atomic_fetch_add(&calls, 1) + 1;
    int before = errno, error = ask(call, path, number, bytes);
    for (int i = 0; error == HELD; i++) {
        wait_ms(HOLD_MS);
        error = i < HOLDS_MAX ? ask(call, path, number, bytes) : EIO;
    }
    errno = error ? error : before;
    if (error) atomic_fetch_add(&failures, 1);
    if (!error) atomic_fetch_add(&bytes_written, bytes);
    return error ? -1 : 0;
}

// Of a file that is open for writing, or a folder that is to be synced; else "".
static const char *path_of(int fd, int reading, char path[4096]) {
    char link[64];
    int before = errno, flags = fcntl(fd, F_GETFL);
    path[0] = 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = flags >= 0 && (reading || (flags & O_ACCMODE) != O_RDONLY) ? readlink(link, path, 4095) : 0;
    path[length > 0 ? length : 0] = 0;
    errno = before;
    return path;
}

// A name below an open folder as a path; the name alone if it is below none.
static const char *path_at(int folder, const char *name, char path[8192]) {
    char of[4096];
    if (folder == AT_FDCWD || name[0] == '/') return name;
    snprintf(path, 8192, "%s%s%s", path_of(folder, 1, of), strcmp(name, ".") ? "/" : "", strcmp(name, ".") ? name : "");
    return path;
}

int openat(int folder, const char *name, int flags, ...) {
    char path[8192];
    va_list args;
    va_start(args, flags);
    unsigned mode = flags & O_CREAT ? va_arg(args, unsigned) : 0;
    va_end(args);
    if ((flags & O_ACCMODE) != O_RDONLY && pass("open", path_at(folder, name, path), 0) != 0) return -1;
    return REAL(openat)(folder, name, flags, mode);
}

int open(const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    unsigned mode = flags & O_CREAT ? va_arg(args, unsigned) : 0;
    va_end(args);
    return openat(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    unsigned mode = flags & O_CREAT ? va_arg(args, unsigned) : 0;
    va_end(args);
    return openat(AT_FDCWD, path, flags, mode);
}

ssize_t write(int fd, const void *data, size_t bytes) {
    char path[4096];
    if (pass("write", path_of(fd, 0, path), (long)bytes) != 0) return -1;
    return REAL(write)(fd, data, bytes);
}

int fsync(int fd) {
    char path[4096];
    return pass("fsync", path_of(fd, 1, path), 0) != 0 ? -1 : REAL(fsync)(fd);
}

int close(int fd) {
    char path[4096];
    int failed = pass("close", path_of(fd, 0, path), 0), error = errno, rc = REAL(close)(fd);
    if (failed) errno = error;
    return failed ? -1 : rc;
}

int renameat(int folder, const char *from, int other, const char *to) {
    char path[8192];
    return pass("rename", path_at(other, to, path), 0) != 0 ? -1 : REAL(renameat)(folder, from, other, to);
}

int rename(const char *from, const char *to) {
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

int mkdirat(int folder, const char *name, mode_t mode) {
    char path[8192];
    return pass("mkdir", path_at(folder, name, path), 0) != 0 ? -1 : REAL(mkdirat)(folder, name, mode);
}

int mkdir(const char *path, mode_t mode) {
    return mkdirat(AT_FDCWD, path, mode);
}

int unlinkat(int folder, const char *name, int flags) {
    char path[8192];
    const char *call = flags & AT_REMOVEDIR ? "rmdir" : "unlink";
    return pass(call, path_at(folder, name, path), 0) != 0 ? -1 : REAL(unlinkat)(folder, name, flags);
}

int unlink(const char *path) {
    return unlinkat(AT_FDCWD, path, 0);
}

int rmdir(const char *path) {
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}
