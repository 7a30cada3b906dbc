// inject.c - linked into train_injected, the program whose calls can be made to fail: the linker's --wrap sends every
// call of OUR code to these functions through here. Calls inside libraries are not touched, except cJSON's allocations, which
// come from ls_new. CMakeLists takes the names for --wrap from this file.
//
// A point is one call, named by where it comes from: the return addresses inside the program, hashed ("path"),
// and its number among the calls from there. Unlike a number among all calls, that means the same call in every run,
// however threads take turns.
//
// Environment
//   LOCKSTEP_INJECT_LOG     a file, ".RANK" is appended under MPI; without it nothing is changed. At the end:
//                             path HASH CALLS KIND FUNCTION ADDRESS...  where calls came from, innermost address first
//                             left KIND FUNCTION HASH                   what was made and never freed, closed, joined
//                             end                                       the program ended by exit() or from main
//                           and, at once:
//                             failed FUNCTION ERRNO                     (0: a function that sets none)
//   LOCKSTEP_INJECT         HASH:N, that call fails; HASH:N+ and every later call that needs the same: memory for
//                           memory, and room on the disk for what writes, as a disk that is full stays full
//   LOCKSTEP_INJECT_RANK    on this rank only (default 0)
//   LOCKSTEP_INJECT_RECORD  a file: what is done to files and folders below the current folder, in order, for
//                           power_loss.py:
//                             mkdir, rmdir, unlink NAME; rename OLD NEW;
//                             open ID NAME c|r|f (create or cut, as it is, folder);
//                             write ID OFFSET HEX; cut ID BYTES; sync ID; close ID
//   LOCKSTEP_INJECT_SHORT   1: no failure, but every read and write is interrupted (EINTR) every other time, and moves
//                           at most 7 bytes; 4096 of a longer one
#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes" // __wrap_NAME is called as NAME

typedef enum { MEMORY, STORE, FILES, THREADS, LIBRARY, KINDS } kind_of_call; // STORE: takes room on a disk
static const char *const kind_names[KINDS] = { "memory", "store", "file", "thread", "library" };

enum { FRAMES = 24, PATHS = 1 << 14, THINGS = 1 << 17 };

typedef struct {
    uint32_t hash; // 0: free
    kind_of_call kind;
    const char *function;
    uint32_t calls;
    int frames;
    uintptr_t frame[FRAMES];
} path;

typedef struct {
    uintptr_t id; // 0: free
    kind_of_call kind;
    const char *function;
    uint32_t hash;
} thing;

static struct {
    int on, log, onwards, shorten, failing, record;
    uint32_t hash, number;
    kind_of_call failed_kind;
    path paths[PATHS];
    thing things[THINGS];
} self;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
extern char __executable_start, etext;

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
    char line[1024];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (length >= (int)sizeof line) length = sizeof line - 1;
    long wrote = syscall(SYS_write, self.log, line, (size_t)length);
    (void)wrote;
}

// One line; in the order in which the calls returned. Names are as we gave them; absolute ones are elsewhere.
__attribute__((format(printf, 1, 2))) static void record(const char *format, ...) {
    if (self.record <= 0) return;
    char line[4096];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    long wrote = syscall(SYS_write, self.record, line, (size_t)length);
    (void)wrote;
}

static void record_write(int fd, const unsigned char *from, size_t bytes) {
    if (self.record <= 0) return;
    long long at = lseek(fd, 0, SEEK_CUR) - (long long)bytes;
    for (size_t done = 0; done < bytes;) {
        char hex[2001];
        size_t part = bytes - done < 1000 ? bytes - done : 1000;
        for (size_t i = 0; i < part; i++) snprintf(hex + 2 * i, 3, "%02x", from[done + i]);
        record("write %d %lld %s\n", fd, at + (long long)done, hex);
        done += part;
    }
}

// --- who calls -----------------------------------------------------------------------------------

static path *find_path(kind_of_call kind, const char *function) {
    void *stack[2 * FRAMES];
    uintptr_t frame[FRAMES], base = (uintptr_t)&__executable_start;
    int depth = backtrace(stack, 2 * FRAMES), frames = 0;
    uint32_t hash = 2166136261U;
    for (const char *at = function; *at; at++) hash = (hash ^ (uint8_t)*at) * 16777619U;
    for (int i = 0; i < depth && frames < FRAMES; i++) {
        uintptr_t address = (uintptr_t)stack[i];
        if (address < base || address >= (uintptr_t)&etext) continue;
        frame[frames++] = address - base;
        for (uintptr_t rest = address - base; rest; rest >>= 8) hash = (hash ^ (uint8_t)rest) * 16777619U;
    }
    if (hash == 0) hash = 1;
    for (size_t slot = hash % PATHS;; slot = (slot + 1) % PATHS) {
        path *p = &self.paths[slot];
        if (p->hash == hash) return p;
        if (p->hash) continue;
        *p = (path){ .hash = hash, .kind = kind, .function = function, .frames = frames };
        memcpy(p->frame, frame, sizeof frame);
        return p;
    }
}

static int same_need(kind_of_call kind) {
    return kind == self.failed_kind && (kind == MEMORY || kind == STORE);
}

// Counts the call, and says whether it fails; *hash names where it comes from.
static int fails(kind_of_call kind, const char *function, int error, uint32_t *hash) {
    *hash = 0;
    if (!self.on) return 0;
    pthread_mutex_lock(&lock);
    path *p = find_path(kind, function);
    p->calls++;
    int failing = p->hash == self.hash && p->calls == self.number;
    if (failing) self.failed_kind = kind;
    int again = self.failing && self.onwards && same_need(kind);
    self.failing |= failing;
    *hash = p->hash;
    pthread_mutex_unlock(&lock);
    if (failing) say("failed %s %d\n", function, error);
    if (failing || again) errno = error;
    return failing || again;
}

// --- what is held --------------------------------------------------------------------------------

static size_t home_of(uintptr_t id) {
    return (size_t)((id >> 4) * 0x9E3779B97F4A7C15ULL >> 40) % THINGS;
}

static void hold(kind_of_call kind, uintptr_t id, const char *function, uint32_t hash) {
    if (!self.on || !id) return;
    pthread_mutex_lock(&lock);
    size_t slot = home_of(id);
    while (self.things[slot].id && self.things[slot].id != id) slot = (slot + 1) % THINGS;
    self.things[slot] = (thing){ id, kind, function, hash };
    pthread_mutex_unlock(&lock);
}

static thing drop(uintptr_t id) {
    thing gone = { 0 };
    if (!self.on || !id) return gone;
    pthread_mutex_lock(&lock);
    size_t slot = home_of(id);
    while (self.things[slot].id && self.things[slot].id != id) slot = (slot + 1) % THINGS;
    gone = self.things[slot];
    self.things[slot].id = 0;
    // What lies behind it in the same run of slots may have wanted to lie here.
    for (size_t next = (slot + 1) % THINGS; gone.id && self.things[next].id; next = (next + 1) % THINGS) {
        size_t home = home_of(self.things[next].id);
        if ((next + THINGS - home) % THINGS < (next + THINGS - slot) % THINGS) continue;
        self.things[slot] = self.things[next];
        self.things[next].id = 0;
        slot = next;
    }
    pthread_mutex_unlock(&lock);
    return gone;
}

static uintptr_t file_id(int fd) {
    return (uintptr_t)fd + 1; // no allocation lies that low
}

// --- start and end -------------------------------------------------------------------------------

__attribute__((constructor)) static void begin(void) {
    const char *log = getenv("LOCKSTEP_INJECT_LOG"), *rank = getenv("OMPI_COMM_WORLD_RANK"),
               *what = getenv("LOCKSTEP_INJECT");
    const char *chosen = getenv("LOCKSTEP_INJECT_RANK");
    if (!log) return;
    char name[4096];
    snprintf(name, sizeof name, "%s%s%s", log, rank ? "." : "", rank ? rank : "");
    self.log = (int)syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    if (self.log < 0) abort();
    void *first[1];
    backtrace(first, 1); // loads the unwinder
    const char *recorded = getenv("LOCKSTEP_INJECT_RECORD");
    if (recorded)
        self.record =
            (int)syscall(SYS_openat, AT_FDCWD, recorded, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    self.shorten = getenv("LOCKSTEP_INJECT_SHORT") != NULL;
    char after = 0;
    if (what && (!rank || atoi(rank) == (chosen ? atoi(chosen) : 0)) &&
        sscanf(what, "%x:%u%c", &self.hash, &self.number, &after) < 2)
        abort();
    self.onwards = after == '+';
    self.on = 1;
}

static void describe(const path *p) {
    char line[32 * FRAMES] = "";
    size_t used = 0;
    for (int i = 0; i < p->frames; i++)
        used += (size_t)snprintf(line + used, sizeof line - used, " %zx", (size_t)p->frame[i]);
    say("path %08x %u %s %s%s\n", p->hash, p->calls, kind_names[p->kind], p->function, line);
}

__attribute__((destructor)) static void end(void) {
    if (!self.on) return;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < PATHS; i++)
        if (self.paths[i].hash) describe(&self.paths[i]);
    for (int i = 0; i < THINGS; i++)
        if (self.things[i].id)
            say("left %s %s %08x\n", kind_names[self.things[i].kind], self.things[i].function, self.things[i].hash);
    say("end\n");
    self.on = 0;
    pthread_mutex_unlock(&lock);
}

#define REAL(type, name, ...) extern type __real_##name(__VA_ARGS__) __attribute__((weak))

// --- memory --------------------------------------------------------------------------------------

REAL(void *, malloc, size_t);
REAL(void *, calloc, size_t, size_t);
REAL(void *, realloc, void *, size_t);
REAL(int, posix_memalign, void **, size_t, size_t);
REAL(void *, aligned_alloc, size_t, size_t);
REAL(char *, strdup, const char *);
REAL(char *, strndup, const char *, size_t);
REAL(char *, realpath, const char *, char *);
REAL(void, free, void *);
REAL(FILE *, open_memstream, char **, size_t *);
REAL(int, scandir, const char *, struct dirent ***, int (*)(const struct dirent *),
    int (*)(const struct dirent **, const struct dirent **));

#define RETURN_MEMORY(name, call) \
    uint32_t hash; \
    if (fails(MEMORY, #name, ENOMEM, &hash)) return NULL; \
    void *memory = (call); \
    hold(MEMORY, (uintptr_t)memory, #name, hash); \
    return memory

void *__wrap_malloc(size_t bytes) {
    RETURN_MEMORY(malloc, __real_malloc(bytes));
}

void *__wrap_calloc(size_t count, size_t bytes) {
    RETURN_MEMORY(calloc, __real_calloc(count, bytes));
}

void *__wrap_aligned_alloc(size_t align, size_t bytes) {
    RETURN_MEMORY(aligned_alloc, __real_aligned_alloc(align, bytes));
}

char *__wrap_strdup(const char *text) {
    RETURN_MEMORY(strdup, __real_strdup(text));
}

char *__wrap_strndup(const char *text, size_t bytes) {
    RETURN_MEMORY(strndup, __real_strndup(text, bytes));
}

char *__wrap_realpath(const char *name, char *buffer) {
    RETURN_MEMORY(realpath, __real_realpath(name, buffer));
}

void *__wrap_realloc(void *old, size_t bytes) {
    uint32_t hash;
    if (fails(MEMORY, "realloc", ENOMEM, &hash)) return NULL;
    thing was = drop((uintptr_t)old); // before another thread may get its address
    void *memory = __real_realloc(old, bytes);
    if (memory || !was.id)
        hold(MEMORY, (uintptr_t)memory, "realloc", hash);
    else
        hold(was.kind, was.id, was.function, was.hash);
    return memory;
}

int __wrap_posix_memalign(void **out, size_t align, size_t bytes) {
    uint32_t hash;
    if (fails(MEMORY, "posix_memalign", ENOMEM, &hash)) return ENOMEM;
    int rc = __real_posix_memalign(out, align, bytes);
    if (rc == 0) hold(MEMORY, (uintptr_t)*out, "posix_memalign", hash);
    return rc;
}

int __wrap_vasprintf(char **out, const char *format, va_list args) {
    uint32_t hash;
    if (fails(MEMORY, "asprintf", ENOMEM, &hash)) {
        *out = (char *)(uintptr_t)0xDEAD; // undefined, says the manual
        return -1;
    }
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    *out = __real_malloc((size_t)length + 1);
    hold(MEMORY, (uintptr_t)*out, "asprintf", hash);
    return vsnprintf(*out, (size_t)length + 1, format, args);
}

int __wrap_asprintf(char **out, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int length = __wrap_vasprintf(out, format, args);
    va_end(args);
    return length;
}

void __wrap_free(void *memory) {
    drop((uintptr_t)memory);
    __real_free(memory);
}

int __wrap_scandir(const char *folder, struct dirent ***out, int (*filter)(const struct dirent *),
    int (*compare)(const struct dirent **, const struct dirent **)) {
    uint32_t hash;
    if (fails(FILES, "scandir", EIO, &hash)) return -1;
    int count = __real_scandir(folder, out, filter, compare);
    if (count < 0) return count;
    hold(MEMORY, (uintptr_t)*out, "scandir", hash);
    for (int i = 0; i < count; i++) hold(MEMORY, (uintptr_t)(*out)[i], "scandir", hash);
    return count;
}

// --- files ---------------------------------------------------------------------------------------

REAL(int, openat, int, const char *, int, ...);
REAL(int, close, int);
REAL(ssize_t, read, int, void *, size_t);
REAL(ssize_t, pread, int, void *, size_t, off_t);
REAL(ssize_t, write, int, const void *, size_t);
REAL(ssize_t, pwrite, int, const void *, size_t, off_t);
REAL(FILE *, fopen, const char *, const char *);
REAL(int, fclose, FILE *);
REAL(DIR *, opendir, const char *);
REAL(int, closedir, DIR *);

// Different calls fail for different reasons.
static int one_of(const int *errors, int count) {
    static uint32_t turn;
    return errors[(self.hash + __atomic_fetch_add(&turn, 1, __ATOMIC_RELAXED)) % (uint32_t)count];
}
#define ONE_OF(...) one_of((const int[]){ __VA_ARGS__ }, (int)(sizeof(int[]){ __VA_ARGS__ } / sizeof(int)))
#define FULL ONE_OF(ENOSPC, EDQUOT, EIO)

// Where a disk is full, it is full for all that follows: then the reason stays.
static int store_error(void) {
    return self.onwards ? ENOSPC : FULL;
}

static int interrupted(size_t *bytes) {
    static uint32_t turn;
    if (!self.shorten) return 0;
    if (__atomic_fetch_add(&turn, 1, __ATOMIC_RELAXED) % 2 == 0) {
        errno = EINTR;
        return 1;
    }
    if (*bytes > 4096)
        *bytes = 4096;
    else if (*bytes > 7)
        *bytes = 7;
    return 0;
}

REAL(int, fstat, int, struct stat *);
static int is_stored(int fd) {
    struct stat info;
    return __real_fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
}

// A name below an open folder, as it is from the current one.
static const char *name_at(int folder, const char *name, char out[4096]) {
    char link[64], real[4096], here[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    long length = folder == AT_FDCWD || name[0] == '/' ? -1 : syscall(SYS_readlink, link, real, sizeof real - 1);
    if (length < 0 || !getcwd(here, sizeof here)) return name;
    real[length] = 0;
    size_t above = strlen(here);
    const char *from = strncmp(real, here, above) == 0 && real[above] == '/' ? real + above + 1 : real;
    snprintf(out, 4096, "%.2000s%s%.2000s", from, strcmp(name, ".") ? "/" : "", strcmp(name, ".") ? name : "");
    return out;
}

int __wrap_openat(int folder, const char *given, int flags, ...) {
    va_list args;
    va_start(args, flags);
    int mode = flags & O_CREAT ? va_arg(args, int) : 0, writes = flags & (O_CREAT | O_WRONLY | O_RDWR);
    va_end(args);
    char at[4096];
    const char *name = name_at(folder, given, at);
    uint32_t hash;
    if (fails(writes ? STORE : FILES, "open", writes ? store_error() : ONE_OF(EMFILE, EACCES, EIO), &hash)) return -1;
    int fd = __real_openat(folder, given, flags, mode);
    if (fd >= 0) hold(FILES, file_id(fd), "open", hash);
    if (fd >= 0 && name[0] != '/')
        record("open %d %s %c\n", fd, name,
            flags & O_DIRECTORY           ? 'f'
            : flags & (O_CREAT | O_TRUNC) ? flags & (O_TRUNC | O_EXCL) ? 'c' : 'a'
                                          : 'r');
    return fd;
}

int __wrap_open(const char *name, int flags, ...) {
    va_list args;
    va_start(args, flags);
    int mode = flags & O_CREAT ? va_arg(args, int) : 0;
    va_end(args);
    return __wrap_openat(AT_FDCWD, name, flags, mode);
}

// As Linux does: closed in any case.
int __wrap_close(int fd) {
    uint32_t hash;
    int failing = fails(FILES, "close", ONE_OF(EIO, EDQUOT), &hash), error = errno;
    drop(file_id(fd));
    record("close %d\n", fd);
    int rc = __real_close(fd);
    if (!failing) return rc;
    errno = error;
    return -1;
}

ssize_t __wrap_read(int fd, void *to, size_t bytes) {
    uint32_t hash;
    if (interrupted(&bytes) || fails(FILES, "read", EIO, &hash)) return -1;
    return __real_read(fd, to, bytes);
}

ssize_t __wrap_pread(int fd, void *to, size_t bytes, off_t offset) {
    uint32_t hash;
    if (interrupted(&bytes) || fails(FILES, "pread", EIO, &hash)) return -1;
    return __real_pread(fd, to, bytes, offset);
}

ssize_t __wrap_write(int fd, const void *from, size_t bytes) {
    uint32_t hash;
    // Standard error: that there is nowhere left to say it cannot be said. An eventfd: has no way to fail.
    if (fd == STDERR_FILENO || !is_stored(fd)) return __real_write(fd, from, bytes);
    if (interrupted(&bytes) || fails(STORE, "write", store_error(), &hash)) return -1;
    ssize_t wrote = __real_write(fd, from, bytes);
    if (wrote > 0) record_write(fd, from, (size_t)wrote);
    return wrote;
}

ssize_t __wrap_pwrite(int fd, const void *from, size_t bytes, off_t offset) {
    uint32_t hash;
    if (interrupted(&bytes) || fails(STORE, "pwrite", store_error(), &hash)) return -1;
    return __real_pwrite(fd, from, bytes, offset);
}

#define PASS(name, kind, error, parameters, arguments) \
    REAL(int, name, parameters); \
    int __wrap_##name(parameters) { \
        uint32_t hash; \
        if (fails(kind, #name, error, &hash)) return -1; \
        return __real_##name(arguments); \
    }
// The same, and recorded when it worked.
#define PASS_RECORDED(name, kind, error, parameters, arguments, ...) \
    REAL(int, name, parameters); \
    int __wrap_##name(parameters) { \
        uint32_t hash; \
        if (fails(kind, #name, error, &hash)) return -1; \
        int rc = __real_##name(arguments); \
        if (rc == 0) record(__VA_ARGS__); \
        return rc; \
    }
#define TWO(a, b) a, b // one macro argument
#define THREE(a, b, c) a, b, c
#define FOUR(a, b, c, d) a, b, c, d
PASS_RECORDED(fsync, STORE, store_error(), int fd, fd, "sync %d\n", fd)
PASS_RECORDED(fdatasync, STORE, store_error(), int fd, fd, "sync %d\n", fd)
PASS_RECORDED(
    ftruncate, STORE, store_error(), TWO(int fd, off_t bytes), TWO(fd, bytes), "cut %d %lld\n", fd, (long long)bytes)
PASS_RECORDED(mkdir, STORE, self.onwards ? ENOSPC : ONE_OF(ENOSPC, EROFS, EACCES), TWO(const char *name, mode_t mode),
    TWO(name, mode), "mkdir %s\n", name)
PASS_RECORDED(rename, STORE, self.onwards ? ENOSPC : ONE_OF(EIO, ENOSPC), TWO(const char *from, const char *to),
    TWO(from, to), "rename %s %s\n", from, to)
PASS_RECORDED(unlink, FILES, EIO, const char *name, name, "unlink %s\n", name)
PASS_RECORDED(rmdir, FILES, EIO, const char *name, name, "rmdir %s\n", name)
// The calls below an open folder have the names of those by path alone: they fail for the same reasons.
#define PASS_AT(name, as, kind, error, parameters, arguments, ...) \
    REAL(int, name, parameters); \
    int __wrap_##name(parameters) { \
        uint32_t hash; \
        if (fails(kind, as, error, &hash)) return -1; \
        int rc = __real_##name(arguments); \
        if (rc == 0) record(__VA_ARGS__); \
        return rc; \
    }
#define NAME_AT(folder, name) name_at(folder, name, (char[4096]){ 0 })
PASS_AT(mkdirat, "mkdir", STORE, self.onwards ? ENOSPC : ONE_OF(ENOSPC, EROFS, EACCES),
    THREE(int folder, const char *name, mode_t mode), THREE(folder, name, mode), "mkdir %s\n", NAME_AT(folder, name))
PASS_AT(renameat, "rename", STORE, self.onwards ? ENOSPC : ONE_OF(EIO, ENOSPC),
    FOUR(int folder, const char *from, int other, const char *to), FOUR(folder, from, other, to), "rename %s %s\n",
    NAME_AT(folder, from), NAME_AT(other, to))
PASS_AT(unlinkat, flags &AT_REMOVEDIR ? "rmdir" : "unlink", FILES, EIO, THREE(int folder, const char *name, int flags),
    THREE(folder, name, flags), "%s %s\n", flags &AT_REMOVEDIR ? "rmdir" : "unlink", NAME_AT(folder, name))
PASS_AT(fstatat, "stat", FILES, EIO, FOUR(int folder, const char *restrict name, struct stat *restrict out, int flags),
    FOUR(folder, name, out, flags), "%s", "")
PASS_AT(faccessat, "access", FILES, EACCES, FOUR(int folder, const char *name, int mode, int flags),
    FOUR(folder, name, mode, flags), "%s", "")
PASS(stat, FILES, EIO, TWO(const char *restrict name, struct stat *restrict out), TWO(name, out))
PASS(lstat, FILES, EIO, TWO(const char *restrict name, struct stat *restrict out), TWO(name, out))
PASS(fstat, FILES, EIO, TWO(int fd, struct stat *out), TWO(fd, out))
PASS(statvfs, FILES, EIO, TWO(const char *restrict name, struct statvfs *restrict out), TWO(name, out))
PASS(fstatvfs, FILES, EIO, TWO(int fd, struct statvfs *out), TWO(fd, out))
PASS(access, FILES, EACCES, TWO(const char *name, int mode), TWO(name, mode))
PASS(gethostname, FILES, ENAMETOOLONG, TWO(char *name, size_t bytes), TWO(name, bytes))
PASS(bind, FILES, EADDRINUSE, THREE(int fd, const struct sockaddr *name, socklen_t bytes), THREE(fd, name, bytes))
PASS(getsockname, FILES, ENOBUFS, THREE(int fd, struct sockaddr *restrict name, socklen_t *restrict bytes),
    THREE(fd, name, bytes))
PASS(poll, FILES, ENOMEM, THREE(struct pollfd *fds, nfds_t count, int timeout_ms), THREE(fds, count, timeout_ms))

#define PASS_FILE(name, error, parameters, arguments) \
    REAL(int, name, parameters); \
    int __wrap_##name(parameters) { \
        uint32_t hash; \
        if (fails(FILES, #name, error, &hash)) return -1; \
        int fd = __real_##name(arguments); \
        if (fd >= 0) hold(FILES, file_id(fd), #name, hash); \
        return fd; \
    }
PASS_FILE(socket, EMFILE, THREE(int domain, int type, int protocol), THREE(domain, type, protocol))
PASS_FILE(eventfd, EMFILE, TWO(unsigned value, int flags), TWO(value, flags))

REAL(ssize_t, readlink, const char *, char *, size_t);
ssize_t __wrap_readlink(const char *name, char *to, size_t bytes) {
    uint32_t hash;
    return fails(FILES, "readlink", EACCES, &hash) ? -1 : __real_readlink(name, to, bytes);
}

REAL(ssize_t, readlinkat, int, const char *, char *, size_t);
ssize_t __wrap_readlinkat(int folder, const char *name, char *to, size_t bytes) {
    uint32_t hash;
    return fails(FILES, "readlink", EACCES, &hash) ? -1 : __real_readlinkat(folder, name, to, bytes);
}

// It takes the descriptor over.
REAL(DIR *, fdopendir, int);
DIR *__wrap_fdopendir(int fd) {
    uint32_t hash;
    if (fails(FILES, "opendir", EMFILE, &hash)) return NULL;
    DIR *folder = __real_fdopendir(fd);
    if (folder) drop(file_id(fd));
    hold(FILES, (uintptr_t)folder, "opendir", hash);
    return folder;
}

DIR *__wrap_opendir(const char *name) {
    uint32_t hash;
    if (fails(FILES, "opendir", EMFILE, &hash)) return NULL;
    DIR *folder = __real_opendir(name);
    hold(FILES, (uintptr_t)folder, "opendir", hash);
    return folder;
}

int __wrap_closedir(DIR *folder) {
    drop((uintptr_t)folder);
    return __real_closedir(folder);
}

REAL(int, getifaddrs, struct ifaddrs **);
REAL(void, freeifaddrs, struct ifaddrs *);
int __wrap_getifaddrs(struct ifaddrs **out) {
    uint32_t hash;
    if (fails(FILES, "getifaddrs", ENOMEM, &hash)) return -1;
    int rc = __real_getifaddrs(out);
    if (rc == 0) hold(MEMORY, (uintptr_t)*out, "getifaddrs", hash);
    return rc;
}

void __wrap_freeifaddrs(struct ifaddrs *list) {
    drop((uintptr_t)list);
    __real_freeifaddrs(list);
}

// --- streams: over our read and write, so that a failure comes where they are really called ------

// The C library goes on after a short write, but not after one of a stream like this.
static ssize_t stream_write(void *context, const char *from, size_t bytes) {
    size_t done = 0;
    while (done < bytes) {
        ssize_t wrote = __wrap_write((int)(intptr_t)context, from + done, bytes - done);
        if (wrote < 0 && errno == EINTR) continue; // regular files are not interrupted
        if (wrote < 0) break;
        done += (size_t)wrote;
    }
    return (ssize_t)done;
}

static ssize_t stream_read(void *context, char *to, size_t bytes) {
    ssize_t got;
    do {
        got = __wrap_read((int)(intptr_t)context, to, bytes);
    } while (got < 0 && errno == EINTR);
    return got;
}

static int stream_seek(void *context, off64_t *offset, int whence) {
    off_t at = lseek((int)(intptr_t)context, *offset, whence);
    *offset = at;
    return at < 0 ? -1 : 0;
}

static int stream_close(void *context) {
    return __wrap_close((int)(intptr_t)context);
}

REAL(FILE *, fdopen, int, const char *);
FILE *__wrap_fdopen(int fd, const char *mode) {
    uint32_t hash;
    if (fails(MEMORY, "fdopen", ENOMEM, &hash)) return NULL;
    if (!self.on) return __real_fdopen(fd, mode);
    char plain[] = { mode[0], strchr(mode, '+') ? '+' : 0, 0 };
    cookie_io_functions_t functions = { stream_read, stream_write, stream_seek, stream_close };
    FILE *file = fopencookie((void *)(intptr_t)fd, plain, functions);
    hold(FILES, (uintptr_t)file, "fdopen", (uint32_t)fd);
    return file;
}

FILE *__wrap_fopen(const char *name, const char *mode) {
    if (!self.on) return __real_fopen(name, mode);
    int flags = mode[0] == 'r'   ? O_RDONLY
                : mode[0] == 'w' ? O_WRONLY | O_CREAT | O_TRUNC
                                 : O_WRONLY | O_CREAT | O_APPEND;
    if (strchr(mode, '+')) flags = (flags & ~(O_RDONLY | O_WRONLY)) | O_RDWR;
    int fd = __wrap_open(name, flags | O_CLOEXEC, 0666);
    if (fd < 0) return NULL;
    FILE *file = __wrap_fdopen(fd, mode);
    if (!file) __wrap_close(fd);
    return file;
}

REAL(int, fileno, FILE *);
int __wrap_fileno(FILE *file) {
    thing found = drop((uintptr_t)file);
    if (found.id) hold(found.kind, found.id, found.function, found.hash);
    return found.id && found.kind == FILES ? (int)found.hash : __real_fileno(file);
}

FILE *__wrap_open_memstream(char **text, size_t *bytes) {
    uint32_t hash;
    if (fails(MEMORY, "open_memstream", ENOMEM, &hash)) return NULL;
    FILE *file = __real_open_memstream(text, bytes);
    hold(MEMORY, (uintptr_t)file, "open_memstream", hash);
    return file;
}

// Of a stream in memory: that it could not grow shows here.
int __wrap_fclose(FILE *file) {
    thing was = drop((uintptr_t)file);
    if (was.id == 0 || was.kind == FILES) return __real_fclose(file);
    uint32_t hash;
    int failing = fails(MEMORY, "fclose", ENOMEM, &hash);
    int rc = __real_fclose(file);
    if (!failing) return rc;
    errno = ENOMEM;
    return EOF;
}

// Standard output; files go through their stream's own write.
REAL(int, fflush, FILE *);
int __wrap_fflush(FILE *file) {
    uint32_t hash;
    int failing = file == stdout && fails(STORE, "fflush", store_error(), &hash), error = errno;
    int rc = __real_fflush(file);
    if (!failing) return rc;
    errno = error;
    return EOF;
}

// --- threads -------------------------------------------------------------------------------------

REAL(int, pthread_create, pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
REAL(int, pthread_join, pthread_t, void **);
REAL(int, pthread_detach, pthread_t);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *context) {
    uint32_t hash;
    if (fails(THREADS, "pthread_create", EAGAIN, &hash)) return EAGAIN;
    int rc = __real_pthread_create(thread, attr, run, context);
    if (rc == 0) hold(THREADS, (uintptr_t)*thread, "pthread_create", hash);
    return rc;
}

int __wrap_pthread_join(pthread_t thread, void **result) {
    drop((uintptr_t)thread);
    return __real_pthread_join(thread, result);
}

int __wrap_pthread_detach(pthread_t thread) {
    drop((uintptr_t)thread);
    return __real_pthread_detach(thread);
}

// --- libraries -----------------------------------------------------------------------------------

// Whatever they take: arguments are handed on as they lie in registers and on the stack (no library here takes floating
// point, and twelve are the most). FAILURE is what such a function returns when it fails.
#define ANY \
    intptr_t a, intptr_t b, intptr_t c, intptr_t d, intptr_t e, intptr_t f, intptr_t g, intptr_t h, intptr_t i, \
        intptr_t j, intptr_t k, intptr_t l
#define GIVEN a, b, c, d, e, f, g, h, i, j, k, l
#define LIBRARY(name, failure) \
    REAL(intptr_t, name, ANY); \
    intptr_t __wrap_##name(ANY) { \
        uint32_t hash; \
        return fails(LIBRARY, #name, 0, &hash) ? (failure) : __real_##name(GIVEN); \
    }
// MAKES also puts what it made where its first, second... argument points; ENDS takes it back.
#define MAKES(name, failure, at) \
    REAL(intptr_t, name, ANY); \
    intptr_t __wrap_##name(ANY) { \
        uint32_t hash; \
        if (fails(LIBRARY, #name, 0, &hash)) return (failure); \
        intptr_t rc = __real_##name(GIVEN); \
        if ((int)rc == 0) hold(LIBRARY, *(uintptr_t *)(at), #name, hash); \
        return rc; \
    }
#define ENDS(name) \
    REAL(intptr_t, name, ANY); \
    intptr_t __wrap_##name(ANY) { \
        drop((uintptr_t)a); \
        return __real_##name(GIVEN); \
    }
#define DNNL_FAILURE 1 /* dnnl_out_of_memory */
MAKES(dnnl_engine_create, DNNL_FAILURE, a)
MAKES(dnnl_memory_create, DNNL_FAILURE, a)
MAKES(dnnl_memory_desc_create_with_tag, DNNL_FAILURE, a)
MAKES(dnnl_primitive_attr_create, DNNL_FAILURE, a)
MAKES(dnnl_primitive_create, DNNL_FAILURE, a)
MAKES(dnnl_primitive_desc_create, DNNL_FAILURE, a)
MAKES(dnnl_convolution_forward_primitive_desc_create, DNNL_FAILURE, a)
MAKES(dnnl_convolution_backward_data_primitive_desc_create, DNNL_FAILURE, a)
MAKES(dnnl_convolution_backward_weights_primitive_desc_create, DNNL_FAILURE, a)
MAKES(dnnl_stream_create, DNNL_FAILURE, a)
ENDS(dnnl_engine_destroy)
ENDS(dnnl_memory_destroy)
ENDS(dnnl_memory_desc_destroy)
ENDS(dnnl_primitive_attr_destroy)
ENDS(dnnl_primitive_destroy)
ENDS(dnnl_primitive_desc_destroy)
ENDS(dnnl_stream_destroy)
LIBRARY(dnnl_dilated_convolution_backward_data_desc_init, DNNL_FAILURE)
LIBRARY(dnnl_dilated_convolution_backward_weights_desc_init, DNNL_FAILURE)
LIBRARY(dnnl_dilated_convolution_forward_desc_init, DNNL_FAILURE)
LIBRARY(dnnl_memory_desc_init_by_tag, DNNL_FAILURE)
LIBRARY(dnnl_memory_set_data_handle, DNNL_FAILURE)
LIBRARY(dnnl_primitive_attr_set_scratchpad_mode, DNNL_FAILURE)
LIBRARY(dnnl_primitive_desc_query, DNNL_FAILURE)
LIBRARY(dnnl_primitive_execute, DNNL_FAILURE)

#define MPI_FAILURE 16 /* Open MPI's MPI_ERR_OTHER */
LIBRARY(MPI_Init_thread, MPI_FAILURE)
LIBRARY(MPI_Comm_set_errhandler, MPI_FAILURE)
LIBRARY(MPI_Comm_rank, MPI_FAILURE)
LIBRARY(MPI_Comm_size, MPI_FAILURE)
LIBRARY(MPI_Comm_dup, MPI_FAILURE)
LIBRARY(MPI_Comm_split, MPI_FAILURE)
LIBRARY(MPI_Comm_split_type, MPI_FAILURE)
LIBRARY(MPI_Get_library_version, MPI_FAILURE)
LIBRARY(MPI_Op_create, MPI_FAILURE)
LIBRARY(MPI_Allgather, MPI_FAILURE)
LIBRARY(MPI_Bcast, MPI_FAILURE)
LIBRARY(MPI_Iallgather, MPI_FAILURE)
LIBRARY(MPI_Iallreduce, MPI_FAILURE)
LIBRARY(MPI_Ibarrier, MPI_FAILURE)
LIBRARY(MPI_Ibcast, MPI_FAILURE)
LIBRARY(MPI_Ireduce, MPI_FAILURE)
LIBRARY(MPI_Test, MPI_FAILURE)

LIBRARY(inflateInit2_, -4) /* Z_MEM_ERROR */
LIBRARY(inflate, -4)
LIBRARY(libdeflate_alloc_decompressor, 0)
LIBRARY(libdeflate_gzip_decompress_ex, 1) /* LIBDEFLATE_BAD_DATA */
LIBRARY(getrandom, -1)
