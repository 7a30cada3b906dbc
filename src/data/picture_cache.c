#include "data/picture_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/cache_file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"

enum { PAGE = 4096, PATH_BYTES = 2048, NAME_BYTES = sizeof "packed-0123456789abcdef-0123456789abcdef" };

// The header, a packed file's first page. Numbers have this machine's byte order; in the other the hash is wrong.
typedef struct {
    char mark[32];
    uint64_t kind, list; // the hashes in the file's name
    int64_t count;
    uint64_t picture_bytes;
    uint64_t hash; // hash of all fields before it
} header;

typedef struct {
    uint64_t stamp;   // stamp of the picture's file; 0: the file must be read to know its content
    uint64_t content; // hash of the file that was decoded
    uint64_t hash;    // hash of content and pixels; 0: not packed
} row;

static const char mark[32] = "lockstep packed pictures 2\n";

// An open packed file that was made for an earlier list of pictures; unchanged pictures are copied from it.
typedef struct {
    int fd; // -1: there is no such file
    header head;
    struct former_row {
        row row;
        int64_t picture;
    } * rows; // sorted by content
} former;

struct ls_picture_cache {
    ls_picture_cache_options options;
    char folder[PATH_BYTES], path[PATH_BYTES];
    int fd, writable;
    atomic_uint_fast64_t *hashes; // by picture: the hash in its row; 0: not packed
    uint8_t *stamped;             // by picture: 1: its content is known from its stamp
    atomic_int full;              // writing has failed, and nothing more is written
    former former;
};

// --- offsets in the packed file

static off_t row_at(int64_t picture) {
    return PAGE + (off_t)picture * (off_t)sizeof(row);
}

static off_t pixels_at(const header *h, int64_t picture) {
    const off_t pages = (row_at(h->count) + PAGE - 1) / PAGE;
    return pages * PAGE + (off_t)picture * (off_t)h->picture_bytes;
}

static void fill_header(const ls_picture_cache_options *o, header *h) {
    *h = (header){ .kind = o->kind,
        .list = ls_hash(o->stamps, (size_t)o->count * sizeof *o->stamps),
        .count = o->count,
        .picture_bytes = o->picture_bytes };
    memcpy(h->mark, mark, sizeof mark);
    h->hash = ls_hash(h, offsetof(header, hash));
}

static uint64_t hash_picture(uint64_t content, const uint8_t *pixels, size_t bytes) {
    const uint64_t hash = ls_hash_more(content, pixels, bytes);
    return hash ? hash : 1;
}

static void name_file(const header *h, char name[NAME_BYTES]) {
    snprintf(name, NAME_BYTES, "packed-%016" PRIx64 "-%016" PRIx64, h->kind, h->list);
}

// --- reading and writing: 1 if all bytes were read or written, else 0

static int read_at(int fd, void *to, size_t bytes, off_t at) {
    for (char *next = to; bytes > 0;) {
        const ssize_t got = pread(fd, next, bytes, at);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return 0;
        next += got, at += got, bytes -= (size_t)got;
    }
    return 1;
}

static int write_at(int fd, const void *from, size_t bytes, off_t at) {
    for (const char *next = from; bytes > 0;) {
        const ssize_t put = pwrite(fd, next, bytes, at);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return 0;
        next += put, at += put, bytes -= (size_t)put;
    }
    return 1;
}

static int read_header(int fd, header *h) {
    return read_at(fd, h, sizeof *h, 0) && memcmp(h->mark, mark, sizeof mark) == 0 &&
           h->hash == ls_hash(h, offsetof(header, hash)) && h->count >= 0;
}

// Reads the table of `count` rows from a packed file; NULL: it cannot be read as a whole. The caller frees it.
static row *read_rows(int fd, int64_t count) {
    row *rows = malloc((size_t)count * sizeof *rows);
    if (rows && read_at(fd, rows, (size_t)count * sizeof *rows, row_at(0))) return rows;
    free(rows);
    return NULL;
}

static void know_content(ls_picture_cache *cache, int64_t picture, const row *r) {
    uint64_t *content = &cache->options.contents[picture];
    if (r->stamp != cache->options.stamps[picture] || *content) return;
    *content = r->content;
    cache->stamped[picture] = 1;
}

static void read_table(ls_picture_cache *cache) {
    row *rows = read_rows(cache->fd, cache->options.count);
    for (int64_t i = 0; rows && i < cache->options.count; i++) {
        know_content(cache, i, &rows[i]);
        const uint64_t content = cache->options.contents[i];
        atomic_store(&cache->hashes[i], !content || content == rows[i].content ? rows[i].hash : 0);
    }
    free(rows);
}

// --- opening

// Opens the file and returns 1 if its header is the wanted one. A file with another header counts as missing.
static int open_file(ls_picture_cache *cache, const header *wanted) {
    header found;
    cache->fd = ls_cache_file_open(cache->path, O_RDWR);
    cache->writable = cache->fd >= 0;
    if (!cache->writable) cache->fd = ls_cache_file_open(cache->path, O_RDONLY);
    if (cache->fd >= 0 && read_header(cache->fd, &found) && memcmp(&found, wanted, sizeof found) == 0) return 1;
    if (cache->fd >= 0) close(cache->fd);
    cache->fd = -1;
    return 0;
}

static ls_status check_room(const ls_picture_cache *cache, const header *h) {
    const char *folder = cache->options.folder;
    const uint64_t bytes = (uint64_t)pixels_at(h, h->count);
    char needs[32];
    if (!ls_failed(ls_check_room(folder, cache->path, "twice", 2 * bytes, bytes))) return LS_SUCCESS;
    return ls_fail(LS_STORAGE, "%s: no room for %s of packed pictures, which need twice as much", folder,
        ls_text_bytes(needs, bytes));
}

// Creates the file and opens it, or opens the file that another process has created meanwhile. Only the header is
// written: the rest is a hole until it is filled.
static ls_status create_file(ls_picture_cache *cache, const header *h, int *opened) {
    ls_atomic_file *file;
    LS_TRY(ls_make_folders(cache->options.folder));
    LS_TRY(check_room(cache, h));
    LS_TRY(ls_atomic_file_open_cache(cache->path, &file));
    ls_atomic_file_write(file, h, sizeof *h);
    *opened = open_file(cache, h);
    if (*opened) {
        ls_atomic_file_abandon(file);
        return LS_SUCCESS;
    }
    LS_TRY(ls_atomic_file_commit(file));
    *opened = open_file(cache, h);
    return LS_SUCCESS;
}

static int is_former(const ls_picture_cache *cache, const char *name) {
    const char *own = strrchr(cache->path, '/') + 1;
    const size_t kind = sizeof "packed-0123456789abcdef-" - 1;
    return strlen(name) == NAME_BYTES - 1 && strncmp(name, own, kind) == 0 && strcmp(name, own) != 0;
}

// Calls `use` for each former packed file: of the same kind, but made before pictures were added, removed or changed
// (for another list of stamps).
static void for_each_former(ls_picture_cache *cache, void (*use)(ls_picture_cache *cache, const char *path)) {
    DIR *folder = opendir(cache->options.folder);
    if (!folder) return;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char path[PATH_BYTES];
        if (is_former(cache, entry->d_name) &&
            !ls_failed(ls_path_join(path, sizeof path, cache->options.folder, entry->d_name)))
            use(cache, path);
    }
    closedir(folder);
}

static int compare_words(uint64_t x, uint64_t y) {
    return x < y ? -1 : x > y;
}

static int compare_stamps(const void *a, const void *b) {
    return compare_words(((const struct former_row *)a)->row.stamp, ((const struct former_row *)b)->row.stamp);
}

static int compare_contents(const void *a, const void *b) {
    return compare_words(((const struct former_row *)a)->row.content, ((const struct former_row *)b)->row.content);
}

static const struct former_row *find_former(const former *f, row wanted, int (*compare)(const void *a, const void *b)) {
    const struct former_row key = { .row = wanted };
    return bsearch(&key, f->rows, (size_t)f->head.count, sizeof key, compare);
}

static void sort_former(former *f, int (*compare)(const void *a, const void *b)) {
    qsort(f->rows, (size_t)f->head.count, sizeof *f->rows, compare);
}

static int read_former_rows(former *f) {
    row *rows = read_rows(f->fd, f->head.count);
    f->rows = rows ? malloc((size_t)f->head.count * sizeof *f->rows) : NULL;
    for (int64_t i = 0; f->rows && i < f->head.count; i++) f->rows[i] = (struct former_row){ rows[i], i };
    free(rows);
    return f->rows != NULL;
}

// Takes content hashes over from the former packed file: a file with the stamp of a former row has that row's content.
static void take_former_contents(ls_picture_cache *cache) {
    former *f = &cache->former;
    sort_former(f, compare_stamps);
    for (int64_t i = 0; i < cache->options.count; i++) {
        const struct former_row *found = find_former(f, (row){ .stamp = cache->options.stamps[i] }, compare_stamps);
        if (found) know_content(cache, i, &found->row);
    }
    sort_former(f, compare_contents);
}

static void close_former(former *f) {
    if (f->fd >= 0) close(f->fd);
    free(f->rows);
    *f = (former){ .fd = -1 };
}

// Opens the former packed file at `path` if it is whole and no other one is open; there is rarely more than one.
static void open_former(ls_picture_cache *cache, const char *path) {
    former *f = &cache->former;
    struct stat info;
    if (f->fd >= 0) return;
    f->fd = ls_cache_file_open(path, O_RDONLY);
    const int good = f->fd >= 0 && fstat(f->fd, &info) == 0 && read_header(f->fd, &f->head) &&
                     f->head.kind == cache->options.kind && f->head.picture_bytes == cache->options.picture_bytes &&
                     f->head.count <= info.st_size / (off_t)sizeof(row) && read_former_rows(f);
    if (good)
        take_former_contents(cache);
    else
        close_former(f);
}

static void remove_former(ls_picture_cache *cache, const char *path) {
    (void)cache;
    unlink(path);
}

static ls_status open_cache(ls_picture_cache *cache) {
    header wanted;
    char name[NAME_BYTES];
    LS_TRY(ls_path_join(cache->folder, sizeof cache->folder, "", cache->options.folder));
    cache->options.folder = cache->folder;
    fill_header(&cache->options, &wanted);
    name_file(&wanted, name);
    LS_TRY(ls_path_join(cache->path, sizeof cache->path, cache->options.folder, name));
    LS_TRY(ls_try_new(&cache->hashes, cache->options.count, sizeof *cache->hashes, "%s", cache->path));
    LS_TRY(ls_try_new(&cache->stamped, cache->options.count, sizeof *cache->stamped, "%s", cache->path));
    int opened = open_file(cache, &wanted);
    if (!opened && cache->options.creates) LS_TRY(create_file(cache, &wanted, &opened));
    if (!opened) return ls_fail(LS_STORAGE, "%s: is not there, or damaged", cache->path);
    // Makes the file long enough, so that the whole table can be read from now on.
    const off_t end = pixels_at(&wanted, 0);
    struct stat info;
    if (cache->writable && fstat(cache->fd, &info) == 0 && info.st_size < end && ftruncate(cache->fd, end) != 0)
        cache->writable = 0;
    read_table(cache);
    for_each_former(cache, open_former);
    return LS_SUCCESS;
}

ls_status ls_picture_cache_open(const ls_picture_cache_options *options, ls_picture_cache **out) {
    ls_picture_cache *cache = ls_new(1, sizeof *cache, "packed pictures");
    cache->options = *options;
    cache->fd = cache->former.fd = -1;
    ls_status status = open_cache(cache);
    return LS_GIVE_OR_FREE(status, cache, out, ls_picture_cache_close);
}

void ls_picture_cache_close(ls_picture_cache *cache) {
    if (!cache) return;
    if (cache->fd >= 0) close(cache->fd);
    close_former(&cache->former);
    free(cache->hashes);
    free(cache->stamped);
    free(cache);
}

const char *ls_picture_cache_path(const ls_picture_cache *cache) {
    return cache->path;
}

// --- reading and packing pictures

int ls_picture_cache_has(const ls_picture_cache *cache, int64_t picture) {
    return cache->options.contents[picture] && atomic_load(&cache->hashes[picture]);
}

static int is_whole(const ls_picture_cache *cache, int64_t picture, const uint8_t *pixels, uint64_t hash) {
    return hash == hash_picture(cache->options.contents[picture], pixels, cache->options.picture_bytes);
}

static int copy_former(ls_picture_cache *cache, int64_t picture, uint8_t *pixels) {
    const former *f = &cache->former;
    if (f->fd < 0) return 0;
    const row wanted = { .content = cache->options.contents[picture] };
    const struct former_row *found = find_former(f, wanted, compare_contents);
    if (!found || !found->row.hash) return 0;
    if (!read_at(f->fd, pixels, cache->options.picture_bytes, pixels_at(&f->head, found->picture))) return 0;
    if (!is_whole(cache, picture, pixels, found->row.hash)) return 0;
    ls_picture_cache_put(cache, picture, cache->stamped[picture] ? cache->options.stamps[picture] : 0, pixels);
    return 1;
}

int ls_picture_cache_get(ls_picture_cache *cache, int64_t picture, uint8_t *pixels) {
    const uint64_t hash = atomic_load(&cache->hashes[picture]);
    header h = { .count = cache->options.count, .picture_bytes = cache->options.picture_bytes };
    if (!cache->options.contents[picture]) return 0;
    if (hash && read_at(cache->fd, pixels, cache->options.picture_bytes, pixels_at(&h, picture)) &&
        is_whole(cache, picture, pixels, hash))
        return 1;
    if (hash) atomic_store(&cache->hashes[picture], 0);
    return copy_former(cache, picture, pixels);
}

void ls_picture_cache_put(ls_picture_cache *cache, int64_t picture, uint64_t stamp, const uint8_t *pixels) {
    if (!cache->writable || atomic_load(&cache->full)) return;
    const size_t bytes = cache->options.picture_bytes;
    const uint64_t content = cache->options.contents[picture];
    const row now = { stamp, content, hash_picture(content, pixels, bytes) };
    header h = { .count = cache->options.count, .picture_bytes = bytes };
    if (write_at(cache->fd, pixels, bytes, pixels_at(&h, picture)) &&
        write_at(cache->fd, &now, sizeof now, row_at(picture))) {
        atomic_store(&cache->hashes[picture], now.hash);
    } else if (atomic_exchange(&cache->full, 1) == 0) {
        ls_warn("%s: cannot be written: %s; pictures that are not packed are decoded each time", cache->path,
            strerror(errno));
    }
}

void ls_picture_cache_settle(ls_picture_cache *cache) {
    read_table(cache);
    if (!cache->writable || atomic_load(&cache->full)) return;
    for_each_former(cache, remove_former);
    close_former(&cache->former);
}
