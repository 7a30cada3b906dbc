// gemm.c - matrix multiplication in register tiles of 6 x 2 vectors: 12 accumulators, 2 loads and 6 broadcasts for 12
// fused multiply-adds. B is packed into panels two vectors wide, A is read where it lies.
#include "device/cpu/kernels/kernels.h"

enum {
    ROWS = 6,
    COLS = 2 * LS_VL,
    DEPTH = 256
}; // DEPTH: a chunk of a panel (16 KiB at 8 floats) stays in the first cache

void LS_KERNEL(gemm_pack)(const float *b, size_t b_k, size_t b_n, int k, int n, float *panel) {
    if (b_n == 1 && n == COLS) {
        for (int i = 0; i < k; i++, b += b_k, panel += COLS) {
            store(panel, load(b));
            store(panel + LS_VL, load(b + LS_VL));
        }
        return;
    }
    for (int i = 0; i < k; i++, b += b_k, panel += COLS)
        for (int j = 0; j < COLS; j++) panel[j] = j < n ? b[(size_t)j * b_n] : 0;
}

typedef struct {
    vf v[ROWS][2];
} tile;

#define ROW(i) \
    vf lo##i = { 0 }, hi##i = { 0 }; \
    const float *a##i = a + (size_t)(i < m ? i : m - 1) * a_m;
#define STEP(i) \
    lo##i += *a##i * b0; \
    hi##i += *a##i * b1; \
    a##i += a_k;
#define KEEP(i) \
    out->v[i][0] = lo##i; \
    out->v[i][1] = hi##i;
#define ALL_ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5)

// Rows beyond m repeat the last one; the caller drops them.
static inline void multiply(const float *a, size_t a_m, size_t a_k, const float *b, int m, int k, tile *out) {
    ALL_ROWS(ROW)
    for (int i = 0; i < k; i++, b += COLS) {
        vf b0 = load(b), b1 = load(b + LS_VL);
        ALL_ROWS(STEP)
    }
    ALL_ROWS(KEEP)
}

static void put(const tile *t, const ls_kernel_gemm *gemm, float *c, const float *bias, int m, int n, int accumulate) {
    for (int i = 0; i < m; i++, c += gemm->c_m) {
        if (n == COLS) {
            vf lo = t->v[i][0], hi = t->v[i][1];
            if (accumulate) {
                lo += load(c);
                hi += load(c + LS_VL);
            } else if (bias) {
                lo += load(bias);
                hi += load(bias + LS_VL);
            }
            store(c, lo);
            store(c + LS_VL, hi);
        } else {
            for (int j = 0; j < n; j++) {
                float x = t->v[i][j / LS_VL][j % LS_VL];
                c[j] = accumulate ? c[j] + x : bias ? bias[j] + x : x;
            }
        }
    }
}

void LS_KERNEL(gemm)(const ls_kernel_gemm *gemm) {
    for (int k = 0; k < gemm->k; k += DEPTH) {
        int depth = gemm->k - k < DEPTH ? gemm->k - k : DEPTH;
        for (int n = 0; n < gemm->n; n += COLS) {
            int columns = gemm->n - n < COLS ? gemm->n - n : COLS;
            const float *b = gemm->b + (size_t)(n / COLS) * gemm->panel_stride + (size_t)k * COLS;
            const float *bias = gemm->bias ? gemm->bias + n : NULL;
            for (int m = 0; m < gemm->m; m += ROWS) {
                int rows = gemm->m - m < ROWS ? gemm->m - m : ROWS;
                const float *a = gemm->a + (size_t)m * gemm->a_m + (size_t)k * gemm->a_k;
                tile t;
                if (gemm->a_k == 1)
                    multiply(a, gemm->a_m, 1, b, rows, depth, &t);
                else
                    multiply(a, gemm->a_m, gemm->a_k, b, rows, depth, &t);
                put(&t, gemm, gemm->c + (size_t)m * gemm->c_m + n, bias, rows, columns, gemm->accumulate || k > 0);
            }
        }
    }
}

void LS_KERNEL(column_sums)(const float *a, size_t stride, int rows, int columns, float *sums) {
    int j = 0;
    for (; j + LS_VL <= columns; j += LS_VL) {
        vf s = { 0 };
        for (int i = 0; i < rows; i++) s += load(a + (size_t)i * stride + j);
        store(sums + j, load(sums + j) + s);
    }
    for (; j < columns; j++) {
        float s = 0;
        for (int i = 0; i < rows; i++) s += a[(size_t)i * stride + (size_t)j];
        sums[j] += s;
    }
}
