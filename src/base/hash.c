#include "base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <xxhash.h>
#include "base/memory.h"

uint64_t ls_hash(const void *data, size_t bytes) {
    return XXH3_64bits(data, bytes);
}

uint64_t ls_hash_more(uint64_t so_far, const void *data, size_t bytes) {
    return XXH3_64bits_withSeed(data, bytes, so_far);
}

void ls_hash_text(uint64_t hash, char text[17]) {
    snprintf(text, 17, "%016" PRIx64, hash);
}

ls_hasher *ls_hasher_new(void) {
    XXH3_state_t *state = XXH3_createState();
    if (!state) ls_out_of_memory(0, "a hash");
    XXH3_64bits_reset(state);
    return (ls_hasher *)state;
}

void ls_hasher_free(ls_hasher *hasher) {
    if (hasher) XXH3_freeState((XXH3_state_t *)hasher);
}

void ls_hasher_add(ls_hasher *hasher, const void *data, size_t bytes) {
    if (bytes) XXH3_64bits_update((XXH3_state_t *)hasher, data, bytes);
}

uint64_t ls_hasher_hash(const ls_hasher *hasher) {
    return XXH3_64bits_digest((const XXH3_state_t *)hasher);
}
