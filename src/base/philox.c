#include "base/philox_core.h"

ls_philox_block ls_philox(const uint32_t counter[4], const uint32_t key[2]) {
    return ls_philox_core(counter[0], counter[1], counter[2], counter[3], key[0], key[1]);
}

ls_philox_block ls_random_block(uint64_t seed, int purpose, uint32_t a, uint32_t b, uint64_t index) {
    return ls_philox_core_block(seed, purpose, a, b, index);
}

void ls_random_key(uint64_t seed, int purpose, uint32_t key[2]) {
    key[0] = (uint32_t)seed;
    key[1] = ls_philox_core_high_key(seed, purpose);
}

uint32_t ls_random_word(uint64_t seed, int purpose, uint32_t a, uint32_t b, uint64_t i) {
    return ls_random_block(seed, purpose, a, b, i / 4).v[i % 4];
}

float ls_unit_float(uint32_t word) {
    return ls_philox_core_unit(word);
}

uint32_t ls_below(uint32_t word, uint32_t n) {
    return (uint32_t)((uint64_t)word * n >> 32);
}
