// philox.h - the counter-based generator Philox 4x32-10 (Salmon et al.,
// "Parallel random numbers: as easy as 1, 2, 3", SC'11).
//
// Every random number of a run is a pure function of (seed, purpose, a, b, element). No rank, thread or device changes
// it. The purposes of a run are in config/purpose.h.
#ifndef LS_BASE_PHILOX_H
#define LS_BASE_PHILOX_H

#include <stdint.h>

typedef struct {
    uint32_t v[4];
} ls_philox_block;

// The bare function: counter (4 words) and key (2 words) to 4 words.
// Source's test vectors are in tests/base/test_philox.c.
ls_philox_block ls_philox(const uint32_t counter[4], const uint32_t key[2]);

// Four words for element block `index` of stream (seed, purpose, a, b):
//   key = (low word of seed, high word of seed ^ purpose * 0x9E3779B9), counter = (low index, high index, a, b).
ls_philox_block ls_random_block(uint64_t seed, int purpose, uint32_t a, uint32_t b, uint64_t index);
void ls_random_key(uint64_t seed, int purpose, uint32_t key[2]);
// Word i of the stream = ls_random_block(.., i / 4).v[i % 4].
uint32_t ls_random_word(uint64_t seed, int purpose, uint32_t a, uint32_t b, uint64_t i);
// Uniform in [0, 1): the upper 24 bits of word, times 2^-24.
float ls_unit_float(uint32_t word);
// Uniform in [0, n), n > 0: (word * n) >> 32.
uint32_t ls_below(uint32_t word, uint32_t n);

#endif
