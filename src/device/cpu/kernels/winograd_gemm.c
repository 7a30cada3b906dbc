// winograd_gemm.c - the matrix products of Winograd convolution at one position: V * U and V^T * Z.
//
// The register tiles fit 16 vector registers (width 8) or 32 (width 16). They are rows of broadcast values times 1 to 3
// vectors:
//   product  6 tiles x 2 vectors (width 16: 12 x 2): 12 (24) accumulators; 2 loads and 6 (12) broadcasts in each step
//   sum      4 in channels x 3 vectors (width 16: 8 x 3); remainders 4 x 2 and 8 x 1
// Width 4 has 12 x 2 on arm64, which has 32 registers, and 6 x 2 elsewhere; its sums have 2 in channels x 3 vectors.
// Accumulators are named variables, because gcc spills arrays of them.
#include "device/cpu/kernels/winograd_gemm.h"
#include "device/cpu/kernels/winograd.h"

// blocks of in channels in one product: its part of a panel of U is 16 KB (width 16: 32 KB)
enum { REDUCED_BLOCKS = 256 / LS_VL };

#define EACH_2(X) X(0) X(1)
#define EACH_4(X) EACH_2(X) X(2) X(3)
#define EACH_6(X) EACH_4(X) X(4) X(5)
#define EACH_8(X) EACH_6(X) X(6) X(7)
#define EACH_12(X) EACH_8(X) X(8) X(9) X(10) X(11)
#define EACH_16(X) EACH_12(X) X(12) X(13) X(14) X(15)
#define EACH_TILE(X) LS_JOIN(EACH_, LS_WINOGRAD_PRODUCT_TILES)(X)
#if LS_VL == 4
#define EACH_ROW EACH_2
#elif LS_VL == 8
#define EACH_ROW EACH_4
#else
#define EACH_ROW EACH_8
#endif
#define EACH_ROW_OF_1(X) LS_JOIN(EACH_, LS_VL)(X)
enum { TILES = LS_WINOGRAD_PRODUCT_TILES, HALF = LS_VL / 2, ROWS = HALF };

#define ZERO_1(r) vf a##r = { 0 };
#define ZERO_2(r) ZERO_1(r) vf b##r = { 0 };
#define ZERO_3(r) ZERO_2(r) vf c##r = { 0 };
#define ZERO_HALF ZERO_1

static inline int halves_of(const ls_winograd_channels *in, int block) {
    return in->half && (block + 1) % in->each == 0 ? 1 : 2;
}

// Multiplies TILES tiles x 2 (or 1) blocks of outputs, over in channels from block `first` to `end`. If first > 0, it
// adds its result to the sums of the blocks before, so that no chain of additions is longer than one part. row: floats
// from one in channel's filters to the next. HALF: half a block of outputs, two in channels at once.
#define FILTER_1 const vf u0 = load(u);
#define FILTER_2 FILTER_1 const vf u1 = load(u + B);
#define FILTER_HALF const vf u0 = in_turn(load(u), load(u + row));
#define ADD_M_1(r) a##r += load(m + r * B);
#define ADD_M_2(r) ADD_M_1(r) b##r += load(m + m_block + r * B);
#define ADD_M_HALF(r) a##r += in_turn(load(m + r * B), (vf){ 0 });
#define STORE_M_1(r) store(m + r * B, a##r);
#define STORE_M_2(r) STORE_M_1(r) store(m + m_block + r * B, b##r);
#define STORE_M_HALF(r) store(m + r * B, evens(a##r) + odds(a##r));
#define STEP_M_1(r) a##r += from[r * B + k] * u0;
#define STEP_M_2(r) \
    { \
        const float x = from[r * B + k]; \
        a##r += x * u0; \
        b##r += x * u1; \
    }
#define STEP_M_HALF(r) a##r += two_channels(from + r * B + k) * u0;
#define PRODUCT(name, kind, each) \
    static void name(const float *v, size_t v_block, const ls_winograd_channels *in, int first, int end, \
        const float *u, size_t row, float *m, size_t m_block) { \
        EACH_TILE(ZERO_##kind)(void) m_block; \
        for (int i = first; i < end; i++, v += v_block) { \
            const int halves = halves_of(in, i); \
            const float *from = v; \
            for (int h = 0; h < halves; h++, from += HALF) { \
                _Pragma("GCC unroll 8") for (int k = 0; k < HALF; k += each, u += each * row) { \
                    FILTER_##kind EACH_TILE(STEP_M_##kind) \
                } \
            } \
            u += (size_t)((2 - halves) * HALF) * row; \
        } \
        if (first > 0) { \
            EACH_TILE(ADD_M_##kind) \
        } \
        EACH_TILE(STORE_M_##kind) \
    }
PRODUCT(product_2, 2, 1)
PRODUCT(product_1, 1, 1)
PRODUCT(product_half, HALF, 2)

void LS_KERNEL(ls_winograd_product)(const float *v, size_t v_block, const ls_winograd_channels *in, const float *u,
    int panel_blocks, int half, float *m, size_t m_block, int tiles) {
    const int whole = panel_blocks - half;
    const size_t row = (size_t)(panel_blocks * B);
    for (int first = 0; first < in->blocks; first += REDUCED_BLOCKS) {
        const int end = in->blocks - first < REDUCED_BLOCKS ? in->blocks : first + REDUCED_BLOCKS;
        const float *from = v + (size_t)first * v_block, *filters = u + (size_t)(first * B) * row;
        for (int t = 0; t < tiles * B; t += TILES * B) {
            if (whole == 2) product_2(from + t, v_block, in, first, end, filters, 2 * B, m + t, m_block);
            if (whole == 1) product_1(from + t, v_block, in, first, end, filters, row, m + t, m_block);
            if (half)
                product_half(from + t, v_block, in, first, end, filters + whole * B, row,
                    m + (size_t)whole * m_block + t, m_block);
        }
    }
}

// Sums ROWS in channels x 3 (2) blocks of outputs, or B x 1, or B x half a block, over the tiles. Existing values of A
// are added at the end. So chains of additions are no longer than a slab, which makes the error up to three times
// smaller. row: floats from one in channel's sums to the next. next: data that is read after this call; it is
// prefetched, because the hardware sees no pattern in untransformed maps.
#define TILE_1 const vf z0 = load(z + k * B);
#define TILE_2 TILE_1 const vf z1 = load(z + z_block + k * B);
#define TILE_3 TILE_2 const vf z2 = load(z + 2 * z_block + k * B);
#define TILE_HALF const vf z0 = twice(load(z + k * B));
#define ADD_A_1(r) a##r += load(a + r * row);
#define ADD_A_2(r) ADD_A_1(r) b##r += load(a + r * row + B);
#define ADD_A_3(r) ADD_A_2(r) c##r += load(a + r * row + 2 * B);
#define ADD_A_HALF(r) a##r += in_turn(load(a + 2 * r * row), load(a + (2 * r + 1) * row));
#define STORE_A_1(r) store(a + r * row, a##r);
#define STORE_A_2(r) STORE_A_1(r) store(a + r * row + B, b##r);
#define STORE_A_3(r) STORE_A_2(r) store(a + r * row + 2 * B, c##r);
#define STORE_A_HALF(r) \
    store(a + 2 * r * row, evens(a##r)); \
    store(a + (2 * r + 1) * row, odds(a##r));
#define STEP_A_1(r) a##r += v[k * B + r] * z0;
#define STEP_A_2(r) \
    { \
        const float x = v[k * B + r]; \
        a##r += x * z0; \
        b##r += x * z1; \
    }
#define STEP_A_3(r) \
    { \
        const float x = v[k * B + r]; \
        a##r += x * z0; \
        b##r += x * z1; \
        c##r += x * z2; \
    }
#define STEP_A_HALF(r) a##r += two_channels(v + k * B + 2 * r) * z0;
#define SUM(name, EACH, kind) \
    static void name( \
        const float *v, const float *z, size_t z_block, const float *next, int add, float *a, size_t row, int tiles) { \
        EACH(ZERO_##kind)(void) z_block; \
        int left = tiles; \
        for (; left >= LS_WINOGRAD_SUM_TILES; left -= LS_WINOGRAD_SUM_TILES, v += LS_WINOGRAD_SUM_TILES * B, \
             z += LS_WINOGRAD_SUM_TILES * B, next += LS_WINOGRAD_SUM_TILES * B) { \
            _Pragma("GCC unroll 8") for (int k = 0; k < LS_WINOGRAD_SUM_TILES; k++) { \
                __builtin_prefetch(next + k * B); \
                TILE_##kind EACH(STEP_A_##kind) \
            } \
        } \
        _Pragma("GCC unroll 1") for (int k = 0; k < left; k++) { \
            TILE_##kind EACH(STEP_A_##kind) \
        } \
        if (add) { \
            EACH(ADD_A_##kind) \
        } \
        EACH(STORE_A_##kind) \
    }
SUM(sum_3, EACH_ROW, 3)
SUM(sum_2, EACH_ROW, 2)
SUM(sum_1, EACH_ROW_OF_1, 1)
SUM(sum_half, EACH_ROW, HALF)

void LS_KERNEL(ls_winograd_sum)(const float *v, size_t v_block, const ls_winograd_channels *in, const float *z,
    size_t z_block, int out_blocks, int out_half, int add, float *a, int tiles) {
    for (int o = 0; o < out_blocks; o += LS_WINOGRAD_SUM_PANEL, z += LS_WINOGRAD_SUM_PANEL * z_block) {
        const int width = out_blocks - o < LS_WINOGRAD_SUM_PANEL ? out_blocks - o : LS_WINOGRAD_SUM_PANEL;
        const int half = out_half && o + width == out_blocks, whole = width - half;
        const size_t row = (size_t)(width * B);
        for (int i = 0; i < in->blocks; i++, a += B * row) {
            const float *from = v + (size_t)i * v_block;
            const float *const next[] = { from + v_block, z + (size_t)(LS_WINOGRAD_SUM_PANEL + i % 3) * z_block };
            if (whole == 1) sum_1(from, z, z_block, next[0], add, a, row, tiles);
            for (int h = 0; whole > 1 && h < halves_of(in, i); h++)
                (whole == 3 ? sum_3 : sum_2)(
                    from + h * ROWS, z, z_block, next[h], add, a + (size_t)(h * ROWS) * row, row, tiles);
            if (half) sum_half(from, z + (size_t)whole * z_block, z_block, next[0], add, a + whole * B, row, tiles);
        }
    }
}
