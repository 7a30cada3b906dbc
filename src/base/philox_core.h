// philox_core.h - the arithmetic of philox.h as inline functions, for code that needs millions of numbers: GPU kernels
// and initial weights. GPU kernels define LS_PHILOX_INLINE before they include this header. Other code calls philox.h.
#ifndef LS_BASE_PHILOX_CORE_H
#define LS_BASE_PHILOX_CORE_H

#include "base/philox.h"

#ifndef LS_PHILOX_INLINE
#define LS_PHILOX_INLINE static inline
#endif

// Constants of Random123 1.14, philox.h: multipliers PHILOX_M4x32_0/1, key increments
// PHILOX_W32_0/1 (golden ratio, sqrt(3)-1).
LS_PHILOX_INLINE ls_philox_block ls_philox_core(
    uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint32_t k0, uint32_t k1) {
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    ls_philox_block block = { { c0, c1, c2, c3 } };
    return block;
}

LS_PHILOX_INLINE uint32_t ls_philox_core_high_key(uint64_t seed, int purpose) {
    return (uint32_t)(seed >> 32) ^ (uint32_t)purpose * 0x9E3779B9u;
}

LS_PHILOX_INLINE ls_philox_block ls_philox_core_block(
    uint64_t seed, int purpose, uint32_t a, uint32_t b, uint64_t index) {
    const uint32_t high = ls_philox_core_high_key(seed, purpose);
    return ls_philox_core((uint32_t)index, (uint32_t)(index >> 32), a, b, (uint32_t)seed, high);
}

LS_PHILOX_INLINE float ls_philox_core_unit(uint32_t word) {
    return (float)(word >> 8) * 0x1p-24f;
}

#endif
