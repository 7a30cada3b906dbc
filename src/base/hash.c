#include "base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <xxhash.h>

uint64_t ls_hash(const void *data, size_t bytes) {
    return XXH3_64bits(data, bytes);
}

uint64_t ls_hash_more(uint64_t so_far, const void *data, size_t bytes) {
    return XXH3_64bits_withSeed(data, bytes, so_far);
}

void ls_hash_text(uint64_t hash, char text[17]) {
    snprintf(text, 17, "%016" PRIx64, hash);
}
