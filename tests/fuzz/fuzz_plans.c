// The file of timed plans; once as it stands, once with the checksum of its first line put right.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "device/algorithm_cache.h"
#include "fuzz/target.h"

static void read_plans(const uint8_t *data, size_t bytes) {
    fuzz_file(0, data, bytes);
    fuzz_link(fuzz_folder(), "plans", 0);
    ls_algorithm_cache *cache;
    if (fuzz_refused(ls_algorithm_cache_open(fuzz_folder(), "plans", &cache), LS_DEVICE, LS_OK)) return;
    ls_algorithm_cache_find(cache, "conv2d", NULL);
    ls_algorithm_cache_free(cache);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    enum { HASH_AT = 17, BODY_AT = HASH_AT + 17 };
    read_plans(data, bytes);
    if (bytes < BODY_AT) return 0;
    uint8_t *mended = malloc(bytes);
    char hash[17];
    if (!mended) abort();
    memcpy(mended, data, bytes);
    ls_hash_text(ls_hash(mended + BODY_AT, bytes - BODY_AT), hash);
    memcpy(mended + HASH_AT, hash, 16);
    read_plans(mended, bytes);
    free(mended);
    return 0;
}
