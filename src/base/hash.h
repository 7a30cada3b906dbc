// hash.h - 64-bit XXH3 (xxHash) of data, whole or in pieces; for fingerprints, not for security.
#ifndef LS_BASE_HASH_H
#define LS_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t ls_hash(const void *data, size_t bytes);
uint64_t ls_hash_more(uint64_t so_far, const void *data, size_t bytes); // hash of the data with the seed so_far
// Hashes data that comes in pieces. The result equals ls_hash of all pieces together.
typedef struct ls_hasher ls_hasher;
ls_hasher *ls_hasher_new(void);
void ls_hasher_free(ls_hasher *hasher); // NULL is allowed
void ls_hasher_add(ls_hasher *hasher, const void *data, size_t bytes);
uint64_t ls_hasher_hash(const ls_hasher *hasher);
void ls_hash_text(uint64_t hash, char text[17]); // 16 hex digits and the terminator

#endif
