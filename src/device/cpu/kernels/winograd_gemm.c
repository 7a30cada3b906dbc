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
enum { TILES = LS_WINOGRAD_PRODUCT_TILES, HALF = LS_VL / 2, ROWS = HALF };

// The vectors of a row are of the types in_a, in_b, in_c: whole ones, of which the last may be `last`, half of one.
typedef float hfu __attribute__((vector_size(LS_VL > 1 ? LS_VL * 2 : 4), aligned(4), may_alias));
#define TYPES_1(last) typedef last in_a;
#define TYPES_2(last) \
    typedef vfu in_a; \
    typedef last in_b;
#define TYPES_3(last) TYPES_2(vfu) typedef last in_c;
#define ZERO_1(r) in_a a##r = { 0 };
#define ZERO_2(r) ZERO_1(r) in_b b##r = { 0 };
#define ZERO_3(r) ZERO_2(r) in_c c##r = { 0 };
#define READ(type, p) (*(const type *)(p))
#define WRITE(type, p, v) \
    { \
        *(type *)(p) = v; \
        if (sizeof(type) < sizeof(vf)) *(hfu *)((p) + HALF) = (hfu){ 0 }; \
    }

static inline int halves_of(const ls_winograd_channels *in, int block) {
    return in->half && (block + 1) % in->each == 0 ? 1 : 2;
}

// TILES tiles x 2 (or 1) blocks of outputs, of in channels from block `first` to `end`; first > 0: to the sums of the blocks
// before, at the end, so that no chain of additions is longer than a part.
#define FILTER_1 const in_a u0 = READ(in_a, u);
#define FILTER_2 FILTER_1 const in_b u1 = READ(in_b, u + B);
#define ADD_M_1(r) a##r += READ(in_a, m + r * B);
#define ADD_M_2(r) ADD_M_1(r) b##r += READ(in_b, m + m_block + r * B);
#define STORE_M_1(r) WRITE(in_a, m + r * B, a##r)
#define STORE_M_2(r) STORE_M_1(r) WRITE(in_b, m + m_block + r * B, b##r)
#define STEP_M_1(r) a##r += from[r * B + k] * u0;
#define STEP_M_2(r) \
    { \
        const float x = from[r * B + k]; \
        a##r += x * u0; \
        b##r += x * u1; \
    }
#define PRODUCT(name, blocks, last) \
    static void name(const float *v, size_t v_block, const ls_winograd_channels *in, int first, int end, \
        const float *u, float *m, size_t m_block) { \
        TYPES_##blocks(last) EACH_TILE(ZERO_##blocks)(void) m_block; \
        for (int i = first; i < end; i++, v += v_block) { \
            const int halves = halves_of(in, i); \
            const float *from = v; \
            for (int h = 0; h < halves; h++, from += HALF) { \
                _Pragma("GCC unroll 8") for (int k = 0; k < HALF; k++, u += blocks * B) { \
                    FILTER_##blocks EACH_TILE(STEP_M_##blocks) \
                } \
            } \
            u += (2 - halves) * HALF * blocks * B; \
        } \
        if (first > 0) { \
            EACH_TILE(ADD_M_##blocks) \
        } \
        EACH_TILE(STORE_M_##blocks) \
    }
PRODUCT(product_2, 2, vfu)
PRODUCT(product_1_and_half, 2, hfu)
PRODUCT(product_1, 1, vfu)
PRODUCT(product_half, 1, hfu)

void LS_KERNEL(ls_winograd_product)(const float *v, size_t v_block, const ls_winograd_channels *in, const float *u,
    int panel_blocks, int half, float *m, size_t m_block, int tiles) {
    for (int first = 0; first < in->blocks; first += REDUCED_BLOCKS) {
        const int end = in->blocks - first < REDUCED_BLOCKS ? in->blocks : first + REDUCED_BLOCKS;
        const float *v_first = v + (size_t)first * v_block;
        const float *u_first = u + (size_t)(first * B) * (size_t)(panel_blocks * B);
        for (int t = 0; t < tiles; t += TILES)
            (panel_blocks == 2 ? half ? product_1_and_half : product_2
                : half         ? product_half
                               : product_1)(v_first + t * B, v_block, in, first, end, u_first, m + t * B, m_block);
    }
}

// ROWS in channels x 3 (2) blocks of outputs, or B x 1, summed over the tiles; what is there already is added to the
// sum at its end: chains of additions are no longer than a slab, which makes the error up to three times as small. row:
// floats from one in channel's sums to the next.
#define TILE_1 const in_a z0 = READ(in_a, z + k * B);
#define TILE_2 TILE_1 const in_b z1 = READ(in_b, z + z_block + k * B);
#define TILE_3 TILE_2 const in_c z2 = READ(in_c, z + 2 * z_block + k * B);
#define ADD_A_1(r) a##r += READ(in_a, a + r * row);
#define ADD_A_2(r) ADD_A_1(r) b##r += READ(in_b, a + r * row + B);
#define ADD_A_3(r) ADD_A_2(r) c##r += READ(in_c, a + r * row + 2 * B);
#define STORE_A_1(r) WRITE(in_a, a + r * row, a##r)
#define STORE_A_2(r) STORE_A_1(r) WRITE(in_b, a + r * row + B, b##r)
#define STORE_A_3(r) STORE_A_2(r) WRITE(in_c, a + r * row + 2 * B, c##r)
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
#define SUM(name, EACH, blocks, last) \
    static void name(const float *v, const float *z, size_t z_block, int add, float *a, int tiles) { \
        enum { row = blocks * B }; \
        TYPES_##blocks(last) EACH(ZERO_##blocks)(void) z_block; \
        for (int t = 0; t < tiles; \
             t += LS_WINOGRAD_SUM_TILES, v += LS_WINOGRAD_SUM_TILES * B, z += LS_WINOGRAD_SUM_TILES * B) { \
            _Pragma("GCC unroll 8") for (int k = 0; k < LS_WINOGRAD_SUM_TILES; k++) { \
                TILE_##blocks EACH(STEP_A_##blocks) \
            } \
        } \
        if (add) { \
            EACH(ADD_A_##blocks) \
        } \
        EACH(STORE_A_##blocks) \
    }
SUM(sum_3, EACH_ROW, 3, vfu)
SUM(sum_2_and_half, EACH_ROW, 3, hfu)
SUM(sum_2, EACH_ROW, 2, vfu)
SUM(sum_1_and_half, EACH_ROW, 2, hfu)
SUM(sum_1, EACH_ROW_OF_1, 1, vfu)
SUM(sum_half, EACH_ROW_OF_1, 1, hfu)

void LS_KERNEL(ls_winograd_sum)(const float *v, size_t v_block, const ls_winograd_channels *in, const float *z,
    size_t z_block, int out_blocks, int out_half, int add, float *a, int tiles) {
    for (int o = 0; o < out_blocks; o += LS_WINOGRAD_SUM_PANEL, z += LS_WINOGRAD_SUM_PANEL * z_block) {
        const int width = out_blocks - o < LS_WINOGRAD_SUM_PANEL ? out_blocks - o : LS_WINOGRAD_SUM_PANEL;
        const int half = out_half && o + width == out_blocks;
        for (int i = 0; i < in->blocks; i++, a += B * width * B) {
            const float *from = v + (size_t)i * v_block;
            if (width == 1) (half ? sum_half : sum_1)(from, z, z_block, add, a, tiles);
            for (int h = 0; width > 1 && h < halves_of(in, i); h++)
                (width == 3 ? half ? sum_2_and_half : sum_3
                    : half  ? sum_1_and_half
                            : sum_2)(from + h * ROWS, z, z_block, add, a + h * ROWS * width * B, tiles);
        }
    }
}
