#include "data/inflated.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"

enum { PAGE = 4096 };

// The file's first page. Numbers are the machine's own: another byte order gives another hash.
typedef struct {
    char mark[32];
    uint64_t stamp, count, content;
    uint64_t hash; // of all before
} header;

static const char mark[32] = "lockstep inflated file 1\n";

static int64_t nanoseconds(const struct timespec *time) {
    return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

// Where it is kept, and what tells its content from others; the path is empty where its file has no name, or too long a one.
static void find_place(const char *folder, const ls_input *source, ls_inflated *place) {
    char name[32];
    struct stat info;
    char *real = realpath(source->path, NULL);
    if (!real || fstat(source->fd, &info) != 0) {
        free(real);
        return;
    }
    const uint64_t where = ls_hash(real, strlen(real));
    const int64_t facts[] = { info.st_size, nanoseconds(&info.st_mtim), nanoseconds(&info.st_ctim) };
    free(real);
    snprintf(name, sizeof name, "inflated-%016" PRIx64, where);
    place->stamp = ls_hash_more(where, facts, sizeof facts);
    if (ls_failed(ls_path_join(place->path, sizeof place->path, folder, name))) place->path[0] = '\0';
}

static uint64_t hash_of(const header *h) {
    return ls_hash(h, offsetof(header, hash));
}

static void map_file(int fd, ls_inflated *out) {
    header h;
    struct stat info;
    if (pread(fd, &h, sizeof h, 0) != (ssize_t)sizeof h || memcmp(h.mark, mark, sizeof mark) != 0) return;
    if (h.hash != hash_of(&h) || h.stamp != out->stamp || h.count == 0) return;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size < PAGE) return;
    if ((uint64_t)info.st_size - PAGE != h.count) return;
    void *map = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    if (map == MAP_FAILED) return;
    out->map = map;
    out->bytes = (const uint8_t *)map + PAGE;
    out->count = (size_t)h.count;
    out->hash = h.content;
}

void ls_inflated_open(const char *folder, const ls_input *source, ls_inflated *out) {
    *out = (ls_inflated){ .bytes = NULL };
    find_place(folder, source, out);
    const int fd = out->path[0] ? open(out->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd < 0) return;
    map_file(fd, out);
    close(fd);
}

void ls_inflated_close(ls_inflated *inflated) {
    if (inflated->map) munmap(inflated->map, PAGE + inflated->count);
    inflated->map = NULL;
    inflated->bytes = NULL;
}

// --- keeping

static int write_all(int fd, const void *from, size_t bytes) {
    for (const char *next = from; bytes > 0;) {
        const ssize_t put = write(fd, next, bytes);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return 0;
        next += put, bytes -= (size_t)put;
    }
    return 1;
}

// Is what was opened still at its path? Whoever had the lock before may have moved it to the file's own place.
static int is_at(int fd, const char *path) {
    struct stat open_file, named;
    return fstat(fd, &open_file) == 0 && lstat(path, &named) == 0 && open_file.st_ino == named.st_ino &&
           open_file.st_dev == named.st_dev;
}

static ls_status write_new(int fd, const char *made, const char *path, const header *h, const uint8_t *bytes) {
    static const char zeros[PAGE];
    if (ftruncate(fd, 0) != 0) return ls_fail_io("write", made, "ftruncate");
    if (!write_all(fd, h, sizeof *h) || !write_all(fd, zeros, PAGE - sizeof *h) || !write_all(fd, bytes, h->count)) {
        ls_status status = ls_fail_io("write", made, "write");
        unlink(made);
        return status;
    }
    return rename(made, path) == 0 ? LS_SUCCESS : ls_fail_io("finish", path, "rename");
}

// Whoever has the lock writes; a killed process has it no more.
static ls_status write_locked(int fd, const char *made, const char *path, const header *h, const uint8_t *bytes) {
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK ? LS_SUCCESS : ls_fail_io("write", made, "flock");
    return is_at(fd, made) ? write_new(fd, made, path, h, bytes) : LS_SUCCESS;
}

static ls_status make_folder_of(const char *path, size_t bytes) {
    char folder[LS_INFLATED_PATH_BYTES];
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    LS_TRY(ls_make_folders(folder));
    return ls_check_room(folder, path, "the inflated file needs", bytes, bytes);
}

ls_status ls_inflated_keep(const ls_inflated *place, const uint8_t *bytes, size_t count, uint64_t hash) {
    char made[LS_INFLATED_PATH_BYTES + 8];
    header h = { .stamp = place->stamp, .count = count, .content = hash };
    memcpy(h.mark, mark, sizeof mark);
    h.hash = hash_of(&h);
    LS_TRY(make_folder_of(place->path, PAGE + count));
    snprintf(made, sizeof made, "%s.new", place->path);
    const int fd = open(made, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0) return ls_fail_io("create", made, "open");
    ls_status status = write_locked(fd, made, place->path, &h, bytes);
    close(fd);
    return status;
}
