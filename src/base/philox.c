#include "base/philox.h"

// Constants of Random123 1.14, philox.h: multipliers PHILOX_M4x32_0/1, key increments PHILOX_W32_0/1 (golden ratio,
// sqrt(3)-1).
ls_philox_block ls_philox(const uint32_t counter[4], const uint32_t key[2]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (ls_philox_block){ { c0, c1, c2, c3 } };
}

ls_philox_block ls_random_block(uint64_t seed, ls_purpose purpose, uint32_t a, uint32_t b, uint64_t index) {
    const uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) ^ (uint32_t)purpose * 0x9E3779B9u };
    const uint32_t counter[4] = { (uint32_t)index, (uint32_t)(index >> 32), a, b };
    return ls_philox(counter, key);
}

uint32_t ls_random_word(uint64_t seed, ls_purpose purpose, uint32_t a, uint32_t b, uint64_t i) {
    return ls_random_block(seed, purpose, a, b, i / 4).v[i % 4];
}

float ls_unit_float(uint32_t word) {
    return (float)(word >> 8) * 0x1p-24f;
}

uint32_t ls_below(uint32_t word, uint32_t n) {
    return (uint32_t)((uint64_t)word * n >> 32);
}
