// Packed pictures. The input is a file as it may lie in the cache folder: once under the name that is looked for, once
// under that of a former list; and again with its header and its rows put right. Whatever it holds, a picture that is taken has the
// hash of its row, and after packing all are there.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/hash.h"
#include "data/picture_cache.h"
#include "fuzz/target.h"

enum { COUNT = 3, BYTES = 8, HEADER = 72 };

static const uint64_t stamps[COUNT] = { 1, 2, 3 };
static uint64_t contents[COUNT];

static ls_picture_cache *open_cache(int creates) {
    const ls_picture_cache_options options = { fuzz_folder(), 5, stamps, contents, COUNT, BYTES, creates };
    ls_picture_cache *cache;
    memset(contents, 0, sizeof contents);
    return fuzz_refused(ls_picture_cache_open(&options, &cache), LS_STORAGE, LS_OK) ? NULL : cache;
}

static void use(ls_picture_cache *cache) {
    uint8_t pixels[BYTES];
    int taken[COUNT];
    for (int i = 0; i < COUNT; i++)
        if (!contents[i]) contents[i] = stamps[i] + 10; // read
    for (int i = 0; i < COUNT; i++) taken[i] = ls_picture_cache_get(cache, i, pixels);
    for (int i = 0; i < COUNT; i++) {
        memset(pixels, i, sizeof pixels);
        if (!taken[i]) ls_picture_cache_put(cache, i, stamps[i], pixels);
    }
    ls_picture_cache_settle(cache);
    for (int i = 0; i < COUNT; i++) fuzz_expect(ls_picture_cache_get(cache, i, pixels), "picture %d is not there", i);
    ls_picture_cache_close(cache);
}

static void write_whole(const char *path, const uint8_t *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    fuzz_expect(file && fwrite(data, 1, bytes, file) == bytes && fclose(file) == 0, "cannot write %s", path);
}

static void try_both_names(const uint8_t *data, size_t bytes) {
    char path[512], former[512];
    ls_picture_cache *cache = open_cache(1);
    fuzz_expect(cache, "no cache");
    snprintf(path, sizeof path, "%s", ls_picture_cache_path(cache));
    snprintf(former, sizeof former, "%s", path);
    char *last = former + strlen(former) - 1;
    *last = *last == '0' ? '1' : '0';
    ls_picture_cache_close(cache);
    write_whole(path, data, bytes);
    if ((cache = open_cache(0))) use(cache);
    unlink(path);
    write_whole(former, data, bytes);
    if ((cache = open_cache(1))) use(cache);
    unlink(path);
    unlink(former);
}

// Each row of a small file gets the hash of what stands at its place.
static void mend_rows(uint8_t *file, size_t bytes) {
    enum { PAGE = 4096, ROW = 24 };
    int64_t count;
    memcpy(&count, file + 48, 8);
    if (count < 1 || count > PAGE / ROW) return;
    for (int64_t i = 0; i < count && 2 * PAGE + (size_t)(i + 1) * BYTES <= bytes; i++) {
        uint8_t *row = file + PAGE + i * ROW;
        uint64_t content;
        memcpy(&content, row + 8, 8);
        const uint64_t hash = ls_hash_more(content, file + 2 * PAGE + i * BYTES, BYTES);
        memcpy(row + 16, &hash, 8);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    try_both_names(data, bytes);
    if (bytes < HEADER) return 0;
    uint8_t *mended = malloc(bytes);
    if (!mended) abort();
    memcpy(mended, data, bytes);
    const uint64_t kind = 5, list = ls_hash(stamps, sizeof stamps), picture_bytes = BYTES;
    memcpy(mended, "lockstep packed pictures 2\n\0\0\0\0", 32);
    memcpy(mended + 32, &kind, 8);
    if (data[40] & 1) memcpy(mended + 40, &list, 8);
    memcpy(mended + 56, &picture_bytes, 8);
    const uint64_t hash = ls_hash(mended, HEADER - 8);
    memcpy(mended + HEADER - 8, &hash, 8);
    mend_rows(mended, bytes);
    if (memcmp(mended, data, bytes) != 0) try_both_names(mended, bytes);
    free(mended);
    return 0;
}
