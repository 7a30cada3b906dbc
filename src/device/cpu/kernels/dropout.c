// dropout.c - dropout of channel blocks, with the random numbers of base/philox.h: a stream of words in canonical
// order, for LS_VL channels at a time. Arithmetic limits the speed: about 3 instructions for each word.
#include "device/cpu/kernels/kernels.h"

// Returns the lower halves of the products; *high: the upper halves.
static inline vu multiply_wide(vu a, uint32_t by, vu *high) {
#if LS_VL == 8
    const __m256i m = _mm256_set1_epi32((int)by), even = _mm256_mul_epu32((__m256i)a, m);
    const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64((__m256i)a, 32), m);
    *high = (vu)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
    return (vu)_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
#elif LS_VL == 16 && !defined(LS_EMULATED)
    const __m512i m = _mm512_set1_epi32((int)by), even = _mm512_mul_epu32((__m512i)a, m);
    const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64((__m512i)a, 32), m);
    *high = (vu)_mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
    return (vu)_mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
#else
    for (int i = 0; i < LS_VL; i++) (*high)[i] = (uint32_t)((uint64_t)a[i] * by >> 32);
    return a * by;
#endif
}

typedef struct {
    vu v[4];
} words;

// ls_philox_core (base/philox_core.h) for LS_VL counters with one key.
static inline words philox(vu c0, vu c1, uint32_t a, uint32_t b, uint32_t k0, uint32_t k1) {
    vu c2 = a - (vu){ 0 }, c3 = b - (vu){ 0 };
    for (int round = 0; round < 10; round++) {
        vu high0, high1;
        const vu low0 = multiply_wide(c0, 0xD2511F53u, &high0), low1 = multiply_wide(c2, 0xCD9E8D57u, &high1);
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (words){ { c0, c1, c2, c3 } };
}

static inline vu choose(vi mask, vu yes, vu no) {
    return (vu)pick(mask, (vf)yes, (vf)no);
}

// A counter gives four words. A lane's channel starts `phase` words after the first of these, so four pixels take words
// from one counter and the next.
void LS_KERNEL(dropout)(const ls_kernel_dropout *k, const void *src, void *dst) {
    const stored *from = src;
    stored *to = dst;
    vu low, high;
    vi phase, used;
    for (int lane = 0; lane < LS_VL; lane++) {
        const uint64_t word = k->word + (uint64_t)lane * (uint64_t)k->pixels;
        low[lane] = (uint32_t)(word / 4), high[lane] = (uint32_t)(word / 4 >> 32);
        phase[lane] = (int)(word % 4);
        used[lane] = lane < k->channels ? -1 : 0;
    }
    const float keep = 1 - k->p;
    words now = philox(low, high, k->a, k->b, k->key[0], k->key[1]);
    for (int i = 0; i < k->pixels; i += 4) {
        low += 1;
        high -= (vu)(low == 0);
        const words next = philox(low, high, k->a, k->b, k->key[0], k->key[1]);
        const vu stream[7] = { now.v[0], now.v[1], now.v[2], now.v[3], next.v[0], next.v[1], next.v[2] };
        for (int j = 0; j < 4 && i + j < k->pixels; j++) {
            const vu upper = choose(phase == 2, stream[j + 2], stream[j + 3]);
            const vu word = choose(phase == 0, stream[j], choose(phase == 1, stream[j + 1], upper));
            const vf unit = __builtin_convertvector((vi)(word >> 8), vf) * 0x1p-24f;
            const vi kept = (vi)(unit >= k->p) & used;
            const size_t at = (size_t)(i + j) * LS_VL;
            store(to + at, (vf)(kept & (vi)(load(from + at) / keep)));
        }
        now = next;
    }
}
