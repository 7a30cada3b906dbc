// winograd_gemm.c - the matrix products of Winograd convolution at one position: V * U and V^T * Z.
//
// Register tiles for 16 vector registers (width 8) or 32 (width 16) are rows of broadcast values times 1 to 3 vectors:
//   product  6 tiles x 2 vectors (16 wide: 12 x 2): 12 (24) accumulators; 2 loads, 6 (12) broadcasts a step
//   sum      4 in channels x 3 vectors (16 wide: 8 x 3); tails 4 x 2 and 8 x 1
// Accumulators are named variables: gcc spills arrays of them.
#include "device/cpu/kernels/winograd_gemm.h"
#include "device/cpu/kernels/winograd.h"

enum { REDUCED_BLOCKS = 256 / LS_VL }; // in channels of one product: its part of a panel of U is 16 KB (16 wide: 32)

#if LS_VL == 8
#define EACH_TILE(X) X(0) X(1) X(2) X(3) X(4) X(5)
#define EACH_ROW(X) X(0) X(1) X(2) X(3)
#define EACH_ROW_OF_1(X) EACH_ROW(X) X(4) X(5) X(6) X(7)
#else
#define EACH_TILE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define EACH_ROW_OF_1(X) EACH_ROW(X) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#endif
enum { TILES = LS_WINOGRAD_PRODUCT_TILES, ROWS = LS_VL / 2 };

#define ZERO_1(r) vf a##r = { 0 };
#define ZERO_2(r) ZERO_1(r) vf b##r = { 0 };
#define ZERO_3(r) ZERO_2(r) vf c##r = { 0 };

// TILES tiles x 2 (or 1) blocks of outputs; add: to the sums of an earlier part of the in channels, at the end, so that
// no chain of additions is longer than a part.
#define ADD_M_1(r) a##r += load(m + r * B);
#define ADD_M_2(r) ADD_M_1(r) b##r += load(m + m_block + r * B);
#define STORE_M_1(r) store(m + r * B, a##r);
#define STORE_M_2(r) STORE_M_1(r) store(m + m_block + r * B, b##r);
#define STEP_M_1(r) a##r += v[r * B + k] * u0;
#define STEP_M_2(r) \
    { \
        const float x = v[r * B + k]; \
        a##r += x * u0; \
        b##r += x * u1; \
    }

static void product_2(
    const float *v, size_t v_block, int in_blocks, const float *u, int add, float *m, size_t m_block) {
    EACH_TILE(ZERO_2)
    for (int i = 0; i < in_blocks; i++, v += v_block) {
#pragma GCC unroll 16
        for (int k = 0; k < B; k++, u += 2 * B) {
            const vf u0 = load(u), u1 = load(u + B);
            EACH_TILE(STEP_M_2)
        }
    }
    if (add) {
        EACH_TILE(ADD_M_2)
    }
    EACH_TILE(STORE_M_2)
}

static void product_1(const float *v, size_t v_block, int in_blocks, const float *u, int add, float *m) {
    EACH_TILE(ZERO_1)
    for (int i = 0; i < in_blocks; i++, v += v_block) {
#pragma GCC unroll 16
        for (int k = 0; k < B; k++, u += B) {
            const vf u0 = load(u);
            EACH_TILE(STEP_M_1)
        }
    }
    if (add) {
        EACH_TILE(ADD_M_1)
    }
    EACH_TILE(STORE_M_1)
}

void LS_KERNEL(ls_winograd_product)(const float *v, size_t v_block, int in_blocks, const float *u, int panel_blocks,
    float *m, size_t m_block, int tiles) {
    for (int first = 0; first < in_blocks; first += REDUCED_BLOCKS) {
        const int blocks = in_blocks - first < REDUCED_BLOCKS ? in_blocks - first : REDUCED_BLOCKS;
        const float *v_first = v + (size_t)first * v_block;
        const float *u_first = u + (size_t)(first * B) * (size_t)(panel_blocks * B);
        for (int t = 0; t < tiles; t += TILES) {
            if (panel_blocks == 2)
                product_2(v_first + t * B, v_block, blocks, u_first, first > 0, m + t * B, m_block);
            else
                product_1(v_first + t * B, v_block, blocks, u_first, first > 0, m + t * B);
        }
    }
}

// ROWS in channels x 3 (2) blocks of outputs, or B x 1, summed over the tiles; what is there already is added to the
// sum at its end: chains of additions are no longer than a slab, which makes the error up to three times as small. row:
// floats from one in channel's sums to the next.
#define ADD_A_1(r) a##r += load(a + r * row);
#define ADD_A_2(r) ADD_A_1(r) b##r += load(a + r * row + B);
#define ADD_A_3(r) ADD_A_2(r) c##r += load(a + r * row + 2 * B);
#define STORE_A_1(r) store(a + r * row, a##r);
#define STORE_A_2(r) STORE_A_1(r) store(a + r * row + B, b##r);
#define STORE_A_3(r) STORE_A_2(r) store(a + r * row + 2 * B, c##r);
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

static void sum_3(const float *v, const float *z, size_t z_block, int add, float *a, int tiles) {
    enum { row = 3 * B };
    EACH_ROW(ZERO_3)
    for (int t = 0; t < tiles;
         t += LS_WINOGRAD_SUM_TILES, v += LS_WINOGRAD_SUM_TILES * B, z += LS_WINOGRAD_SUM_TILES * B) {
#pragma GCC unroll 8
        for (int k = 0; k < LS_WINOGRAD_SUM_TILES; k++) {
            const vf z0 = load(z + k * B), z1 = load(z + z_block + k * B), z2 = load(z + 2 * z_block + k * B);
            EACH_ROW(STEP_A_3)
        }
    }
    if (add) {
        EACH_ROW(ADD_A_3)
    }
    EACH_ROW(STORE_A_3)
}

static void sum_2(const float *v, const float *z, size_t z_block, int add, float *a, int tiles) {
    enum { row = 2 * B };
    EACH_ROW(ZERO_2)
    for (int t = 0; t < tiles;
         t += LS_WINOGRAD_SUM_TILES, v += LS_WINOGRAD_SUM_TILES * B, z += LS_WINOGRAD_SUM_TILES * B) {
#pragma GCC unroll 8
        for (int k = 0; k < LS_WINOGRAD_SUM_TILES; k++) {
            const vf z0 = load(z + k * B), z1 = load(z + z_block + k * B);
            EACH_ROW(STEP_A_2)
        }
    }
    if (add) {
        EACH_ROW(ADD_A_2)
    }
    EACH_ROW(STORE_A_2)
}

static void sum_1(const float *v, const float *z, int add, float *a, int tiles) {
    enum { row = B };
    EACH_ROW_OF_1(ZERO_1)
    for (int t = 0; t < tiles;
         t += LS_WINOGRAD_SUM_TILES, v += LS_WINOGRAD_SUM_TILES * B, z += LS_WINOGRAD_SUM_TILES * B) {
#pragma GCC unroll 8
        for (int k = 0; k < LS_WINOGRAD_SUM_TILES; k++) {
            const vf z0 = load(z + k * B);
            EACH_ROW_OF_1(STEP_A_1)
        }
    }
    if (add) {
        EACH_ROW_OF_1(ADD_A_1)
    }
    EACH_ROW_OF_1(STORE_A_1)
}

void LS_KERNEL(ls_winograd_sum)(const float *v, size_t v_block, int in_blocks, const float *z, size_t z_block,
    int out_blocks, int add, float *a, int tiles) {
    for (int o = 0; o < out_blocks; o += LS_WINOGRAD_SUM_PANEL, z += LS_WINOGRAD_SUM_PANEL * z_block) {
        const int width = out_blocks - o < LS_WINOGRAD_SUM_PANEL ? out_blocks - o : LS_WINOGRAD_SUM_PANEL;
        for (int i = 0; i < in_blocks; i++) {
            const float *from = v + (size_t)i * v_block;
            if (width == 1) {
                sum_1(from, z, add, a, tiles);
                a += B * B;
                continue;
            }
            for (int half = 0; half < B; half += ROWS, a += ROWS * width * B) {
                if (width == 3)
                    sum_3(from + half, z, z_block, add, a, tiles);
                else
                    sum_2(from + half, z, z_block, add, a, tiles);
            }
        }
    }
}
