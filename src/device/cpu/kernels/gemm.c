// gemm.c - matrix multiplication in register tiles of LS_GEMM_ROWS rows x 2 vectors of columns; the last columns may
// need only one vector.
//
// The depth is split into chunks. A panel is the part of B with one chunk of depth and two vectors of columns. It stays
// in the first- or second-level cache while all rows of A are multiplied by it. A is read in place. B is read in place
// too if its rows are contiguous; the next panel, whose rows are scattered in memory, is then prefetched. Otherwise the
// panel is a copy, which is transposed in registers if B's columns are contiguous. An element of C is the sum of its
// chunks, and each chunk is one chain of multiply-adds. So the bits do not depend on the shape of a tile.
#include "device/cpu/kernels/kernels.h"

#define INLINE static inline __attribute__((always_inline))

enum { ROWS = LS_GEMM_ROWS, COLS = 2 * LS_VL, DEPTH = LS_GEMM_DEPTH };

// --- a panel of B ------------------------------------------------------------------------------------------

#if LS_VL > 1 && !(LS_VL == 16 && defined(LS_EMULATED))
// Step s of a transposition exchanges the s x s blocks next to the diagonal. LOWER and UPPER give the source of lane l
// in the lower and in the upper row.
#define LOWER(l, s) ((l) & (s) ? (l) - (s) + LS_VL : (l))
#define UPPER(l, s) ((l) & (s) ? (l) + LS_VL : (l) + (s))
#define FOUR(X, l, s) X((l), s), X((l) + 1, s), X((l) + 2, s), X((l) + 3, s)
#if LS_VL == 4
#define LANES(X, s) FOUR(X, 0, s)
#elif LS_VL == 8
#define LANES(X, s) FOUR(X, 0, s), FOUR(X, 4, s)
#else
#define LANES(X, s) FOUR(X, 0, s), FOUR(X, 4, s), FOUR(X, 8, s), FOUR(X, 12, s)
#endif
#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLE __builtin_shufflevector
#else
#define SHUFFLE(low, high, ...) __builtin_shuffle(low, high, (vi){ __VA_ARGS__ })
#endif
#define EXCHANGE(s) \
    for (int i = 0; i < LS_VL; i++) { \
        if (i & (s)) continue; \
        const vf low = t[i], high = t[i + (s)]; \
        t[i] = SHUFFLE(low, high, LANES(LOWER, s)); \
        t[i + (s)] = SHUFFLE(low, high, LANES(UPPER, s)); \
    }

// Transposes LS_VL steps in depth of LS_VL columns. Only `columns` of these exist; the others become zero.
static void pack_square(const float *b, size_t b_n, int columns, float *panel) {
    vf t[LS_VL] = { { 0 } };
    for (int j = 0; j < LS_VL; j++)
        if (j < columns) t[j] = load(b + (size_t)j * b_n);
    EXCHANGE(1)
    EXCHANGE(2)
#if LS_VL >= 8
    EXCHANGE(4)
#endif
#if LS_VL == 16
    EXCHANGE(8)
#endif
    for (int i = 0; i < LS_VL; i++) store(panel + i * COLS, t[i]);
}
#else
static void pack_square(const float *b, size_t b_n, int columns, float *panel) {
    for (int i = 0; i < LS_VL; i++)
        for (int j = 0; j < LS_VL; j++) panel[i * COLS + j] = j < columns ? b[(size_t)j * b_n + (size_t)i] : 0;
}
#endif

static void pack_columns(const float *b, size_t b_n, int k, int columns, float *panel) {
    int i = 0;
    for (; i + LS_VL <= k; i += LS_VL) pack_square(b + i, b_n, columns, panel + i * COLS);
    for (; i < k; i++)
        for (int j = 0; j < LS_VL; j++) panel[i * COLS + j] = j < columns ? b[(size_t)j * b_n + (size_t)i] : 0;
}

static void pack_rest(const float *b, size_t b_k, int k, int columns, float *panel) {
    for (int i = 0; i < k; i++, b += b_k, panel += COLS)
        for (int j = 0; j < COLS; j++) panel[j] = j < columns ? b[j] : 0;
}

// --- rows of A by a panel ----------------------------------------------------------------------------------

typedef struct {
    const float *a, *b;
    size_t a_m, a_k, b_k, c_m;
    float *c;
    const float *bias;
    int m, n, k;
    int accumulate;
    const float *next; // the panel to prefetch, whose rows are next_k floats apart; or NULL
    size_t next_k;
} piece;

static __attribute__((noinline)) void put_some(const piece *p, float *c, const float *x) {
    for (int j = 0; j < p->n; j++) c[j] = p->accumulate ? c[j] + x[j] : p->bias ? p->bias[j] + x[j] : x[j];
}

INLINE void put(const piece *p, float *c, vf low, vf high, int wide) {
    if (p->n < (wide ? COLS : LS_VL)) {
        float x[COLS];
        store(x, low);
        if (wide) store(x + LS_VL, high);
        put_some(p, c, x);
        return;
    }
    if (p->accumulate || p->bias) {
        const float *before = p->accumulate ? c : p->bias;
        low += load(before);
        if (wide) high += load(before + LS_VL);
    }
    store(c, low);
    if (wide) store(c + LS_VL, high);
}

#define ROW(i) \
    vf low##i = { 0 }, high##i = { 0 }; \
    const float *a##i = a + (i < rows ? (size_t)i * p->a_m : 0);
#define FETCH(i) \
    if (i < rows) { \
        __builtin_prefetch(c + (size_t)i * p->c_m, 1); \
        if (wide) __builtin_prefetch(c + (size_t)i * p->c_m + LS_VL, 1); \
    }
#define STEP(i) \
    if (i < rows) { \
        const float x = a##i[at]; \
        low##i += x * b0; \
        if (wide) high##i += x * b1; \
    }
#define PUT(i) \
    if (i < rows) put(p, c + (size_t)i * p->c_m, low##i, high##i, wide);
#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

// Multiplies `rows` rows of A, from row m on, by the panel. rows, wide, fetch: constants. wide: the panel has two
// vectors of columns. fetch: prefetch the next panel during the multiplication.
INLINE void multiply(const piece *p, int m, int rows, int wide, int fetch) {
    const float *a = p->a + (size_t)m * p->a_m, *b = p->b;
    float *c = p->c + (size_t)m * p->c_m;
    const size_t a_k = p->a_k, b_k = p->b_k, next_k = p->next_k;
    const float *next = p->next;
    const int depth = p->k;
    size_t at = 0;
    EACH_ROW(ROW)
    EACH_ROW(FETCH)
    for (int k = 0; k < depth; k++, b += b_k, at += a_k) {
        const vf b0 = load(b), b1 = wide ? load(b + LS_VL) : b0;
        EACH_ROW(STEP)
        if (fetch) {
            __builtin_prefetch(next);
            __builtin_prefetch(next + LS_VL);
            next += next_k;
        }
    }
    EACH_ROW(PUT)
}

INLINE void multiply_all(const piece *p, int wide) {
    int m = 0;
    if (wide && p->next && p->m >= ROWS) multiply(p, 0, ROWS, wide, 1), m = ROWS;
    for (; p->m - m >= ROWS; m += ROWS) multiply(p, m, ROWS, wide, 0);
    if (ROWS > 8 && p->m - m >= 8) multiply(p, m, 8, wide, 0), m += 8;
    if (p->m - m >= 4) multiply(p, m, 4, wide, 0), m += 4;
    if (p->m - m >= 2) multiply(p, m, 2, wide, 0), m += 2;
    if (p->m - m >= 1) multiply(p, m, 1, wide, 0);
}

static void multiply_wide(const piece *p) {
    multiply_all(p, 1);
}

static void multiply_narrow(const piece *p) {
    multiply_all(p, 0);
}

// Sets where the panel of B is read from: B itself, or if B cannot be read in place a copy that this function makes.
static void place_panel(const ls_kernel_gemm *g, int k, int n, piece *p) {
    const int whole = p->n > LS_VL ? COLS : LS_VL, there = g->columns - n < p->n ? g->columns - n : p->n;
    const float *b = g->b + (size_t)k * g->b_k + (size_t)n * g->b_n;
    p->b = g->panel;
    p->b_k = COLS;
    if (g->b_n != 1) {
        for (int j = 0; j < whole; j += LS_VL)
            pack_columns(b + (size_t)j * g->b_n, g->b_n, p->k, there - j, g->panel + j);
    } else if (there < whole) {
        pack_rest(b, g->b_k, p->k, there, g->panel);
    } else {
        p->b = b;
        p->b_k = p->next_k = g->b_k;
        if (g->n - n > COLS) p->next = b + COLS;
    }
}

void LS_KERNEL(gemm)(const ls_kernel_gemm *g) {
    for (int k = 0; k < g->k; k += DEPTH)
        for (int n = 0; n < g->n; n += COLS) {
            piece p = { .a = g->a + (size_t)k * g->a_k,
                .a_m = g->a_m,
                .a_k = g->a_k,
                .c_m = g->c_m,
                .c = g->c + n,
                .bias = g->bias ? g->bias + n : NULL,
                .m = g->m,
                .n = g->n - n < COLS ? g->n - n : COLS,
                .k = g->k - k < DEPTH ? g->k - k : DEPTH,
                .accumulate = g->accumulate || k > 0 };
            place_panel(g, k, n, &p);
            if (p.n > LS_VL)
                multiply_wide(&p);
            else
                multiply_narrow(&p);
        }
}
