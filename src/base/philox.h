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

// The function itself: 4 words of counter and 2 words of key give 4 random words. tests/base/test_philox.c checks it
// with the test vectors of its source.
ls_philox_block ls_philox(const uint32_t counter[4], const uint32_t key[2]);

// Returns the four words of element block `index` of the stream (seed, purpose, a, b):
//   key = (low word of seed, high word of seed ^ purpose * 0x9E3779B9), counter = (low index, high index, a, b).
ls_philox_block ls_random_block(uint64_t seed, int purpose, uint32_t a, uint32_t b, uint64_t index);
void ls_random_key(uint64_t seed, int purpose, uint32_t key[2]); // writes the key of ls_random_block
// Returns word i of the stream: ls_random_block(.., i / 4).v[i % 4].
uint32_t ls_random_word(uint64_t seed, int purpose, uint32_t a, uint32_t b, uint64_t i);
// Maps a random word to [0, 1): its upper 24 bits times 2^-24.
float ls_unit_float(uint32_t word);
// Maps a random word to [0, n), n > 0: (word * n) >> 32.
uint32_t ls_below(uint32_t word, uint32_t n);

#endif
