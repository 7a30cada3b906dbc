#include "data/inflated.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cache_file.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/memory.h"
#include "system/signals.h"

enum { PAGE = 4096, MADE_BYTES = LS_INFLATED_PATH_BYTES + 8 };

static const double LOOK_S = 2e-3; // pause between two looks for the file that another process makes

// The header, a kept file's first page. Numbers have this machine's byte order; in the other order the hash is wrong.
typedef struct {
    char mark[32];
    uint64_t stamp, count, content; // content: the caller's hash
    uint64_t hash;                  // hash of all fields before it
} header;

static const char mark[32] = "lockstep inflated file 1\n";

// Returns a hash of the source's bytes; 0: it cannot be read. Only the content counts, because a file can be replaced
// by one of the same name, size and times. 10 MB take 2 ms.
static uint64_t hash_source(const ls_input *source) {
    enum { CHUNK = 256 << 10 };
    ls_hasher *hasher = ls_hasher_new();
    char *chunk = malloc(CHUNK);
    int good = chunk != NULL;
    for (size_t at = 0; good && at < source->bytes; at += CHUNK) {
        const size_t left = source->bytes - at, bytes = left < CHUNK ? left : CHUNK;
        good = !ls_failed(ls_input_read(source, at, chunk, bytes));
        if (good) ls_hasher_add(hasher, chunk, bytes);
    }
    const uint64_t hash = good ? ls_hasher_hash(hasher) : 0;
    free(chunk);
    ls_hasher_free(hasher);
    return hash;
}

// Fills in the kept file's path (place->path; empty if too long, or if the source cannot be read) and the source's
// hash.
static void find_place(const char *folder, const ls_input *source, ls_inflated *place) {
    char name[32];
    char *real = realpath(source->path, NULL);
    place->stamp = real ? hash_source(source) : 0;
    if (place->stamp) {
        snprintf(name, sizeof name, "inflated-%016" PRIx64, ls_hash(real, strlen(real)));
        if (ls_failed(ls_path_join(place->path, sizeof place->path, folder, name))) place->path[0] = '\0';
    }
    free(real);
}

static uint64_t hash_of(const header *h) {
    return ls_hash(h, offsetof(header, hash));
}

// Reads the kept file into memory, where nobody else can change it, if it is whole and belongs to the wanted content.
static void take_file(const ls_input *file, ls_inflated *out) {
    header h;
    struct stat info;
    void *bytes;
    if (pread(file->fd, &h, sizeof h, 0) != (ssize_t)sizeof h || memcmp(h.mark, mark, sizeof mark) != 0) return;
    if (h.hash != hash_of(&h) || h.stamp != out->stamp || h.count == 0) return;
    if (fstat(file->fd, &info) != 0 || info.st_size < PAGE || (uint64_t)info.st_size - PAGE != h.count) return;
    if (ls_failed(ls_memory_new((size_t)h.count, file->path, &bytes))) return;
    if (ls_failed(ls_input_read(file, PAGE, bytes, (size_t)h.count))) {
        ls_memory_free(bytes);
        return;
    }
    out->bytes = bytes;
    out->count = (size_t)h.count;
    out->hash = h.content;
}

static void look_for_file(ls_inflated *out) {
    ls_input file = { out->path, out->path[0] ? ls_cache_file_open(out->path, O_RDONLY) : -1, 0 };
    if (file.fd < 0) return;
    take_file(&file, out);
    ls_input_close(&file);
}

void ls_inflated_open(const char *folder, const ls_input *source, ls_inflated *out) {
    *out = (ls_inflated){ .bytes = NULL };
    find_place(folder, source, out);
    look_for_file(out);
}

// --- the process that makes the file: it holds the lock of a temporary file, which the system releases when it ends

// Returns 1 if the open file is still at its path: a former owner of the lock may have moved it to the kept file's
// path.
static int is_at(int fd, const char *path) {
    struct stat open_file, named;
    return fstat(fd, &open_file) == 0 && lstat(path, &named) == 0 && open_file.st_ino == named.st_ino &&
           open_file.st_dev == named.st_dev;
}

static void name_made(const ls_inflated *place, char made[MADE_BYTES]) {
    snprintf(made, MADE_BYTES, "%s.new", place->path);
}

// Tries to lock the temporary file. place->makes: 1: this process has the lock; 0: another has it or moved the file.
static ls_status try_lock(ls_inflated *place) {
    char made[MADE_BYTES];
    name_made(place, made);
    const int fd = ls_cache_file_create(made);
    if (fd < 0) return ls_fail_io("create", made, "open");
    const int failed = flock(fd, LOCK_EX | LOCK_NB) != 0, busy = failed && errno == EWOULDBLOCK;
    ls_status status = failed && !busy ? ls_fail_io("write", made, "flock") : LS_SUCCESS;
    place->makes = !failed && is_at(fd, made);
    place->lock = fd;
    if (!place->makes) close(fd);
    return status;
}

static void unlock(ls_inflated *place) {
    char made[MADE_BYTES];
    if (!place->makes) return;
    name_made(place, made);
    if (is_at(place->lock, made)) unlink(made);
    close(place->lock);
    place->makes = 0;
}

static ls_status make_folder(const ls_inflated *place, char folder[LS_INFLATED_PATH_BYTES]) {
    snprintf(folder, LS_INFLATED_PATH_BYTES, "%.*s", (int)(strrchr(place->path, '/') - place->path), place->path);
    return ls_make_folders(folder);
}

void ls_inflated_claim(ls_inflated *place, double wait_s) {
    char folder[LS_INFLATED_PATH_BYTES];
    const double end_s = ls_clock_seconds() + wait_s;
    if (!place->path[0] || ls_failed(make_folder(place, folder))) return;
    for (;;) {
        if (ls_failed(try_lock(place))) return; // ls_inflated_keep will fail as well, and say why
        look_for_file(place);                   // another process may have made it by now
        if (place->bytes) unlock(place);
        if (place->bytes || place->makes || ls_clock_seconds() > end_s || ls_signals_received()) return;
        ls_clock_sleep(LOOK_S);
    }
}

void ls_inflated_close(ls_inflated *inflated) {
    ls_memory_free(inflated->bytes);
    inflated->bytes = NULL;
    unlock(inflated);
}

// --- keeping the bytes

static int write_all(int fd, const void *from, size_t bytes) {
    for (const char *next = from; bytes > 0;) {
        const ssize_t put = write(fd, next, bytes);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return 0;
        next += put, bytes -= (size_t)put;
    }
    return 1;
}

static ls_status write_new(const ls_inflated *place, const header *h, const uint8_t *bytes) {
    static const char zeros[PAGE];
    char made[MADE_BYTES];
    const int fd = place->lock;
    name_made(place, made);
    if (ftruncate(fd, 0) != 0) return ls_fail_io("write", made, "ftruncate");
    if (!write_all(fd, h, sizeof *h) || !write_all(fd, zeros, PAGE - sizeof *h) || !write_all(fd, bytes, h->count))
        return ls_fail_io("write", made, "write");
    return rename(made, place->path) == 0 ? LS_SUCCESS : ls_fail_io("finish", place->path, "rename");
}

ls_status ls_inflated_keep(ls_inflated *place, const uint8_t *bytes, size_t count, uint64_t hash) {
    char folder[LS_INFLATED_PATH_BYTES];
    header h = { .stamp = place->stamp, .count = count, .content = hash };
    memcpy(h.mark, mark, sizeof mark);
    h.hash = hash_of(&h);
    ls_status status = make_folder(place, folder);
    LS_THEN(status, ls_check_room(folder, place->path, "the inflated file needs", PAGE + count, PAGE + count));
    if (!place->makes) LS_THEN(status, try_lock(place));
    if (place->makes) LS_THEN(status, write_new(place, &h, bytes));
    unlock(place);
    return status;
}
