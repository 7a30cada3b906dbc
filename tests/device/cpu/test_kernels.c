// test_kernels.c - the inner loops of the cpu device where no operator takes them: any count of elements, at addresses
// aligned to a float; every rest of a register tile; blocks and tiles one by one. Every array is exactly as long as the
// kernel's contract says, so that the address sanitizer sees what goes beyond.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <stdio.h>
#include "system/cpus.h"
#include "base/half.h"
#include "base/philox.h"
#include "config/purpose.h"
#include "device/cpu/kernels/kernels.h"
#include "device/cpu/winograd.h"
#include "support/cmocka.h"

#pragma weak ls_kernels_v4e // builds with sanitizers do not have it
#pragma weak ls_kernels_v4e_bf16

typedef enum { NOTHING, AVX2, AVX512, AVX512_BF16 } needs; // of the processor

static int has(needs what) {
    ls_cpus cpus;
    ls_cpus_detect(&cpus);
    return what == NOTHING ? 1 : what == AVX2 ? cpus.has_avx2 : what == AVX512 ? cpus.has_avx512 : cpus.has_avx512_bf16;
}

static const struct {
    const char *name;
    const ls_kernels *kernels;
    needs needs;
} widths[] = {
    { "width 1 of any processor", &ls_kernels_v1b, NOTHING },
    { "width 4", &ls_kernels_v4, NOTHING },
#if defined(__x86_64__)
    { "width 1", &ls_kernels_v1, AVX2 },
    { "width 4 fused", &ls_kernels_v4e, AVX2 },
    { "width 8", &ls_kernels_v8, AVX2 },
    { "width 16", &ls_kernels_v16, AVX512 },
    { "width 16 emulated", &ls_kernels_v16e, AVX2 },
#endif
};

typedef void check(const char *name, const ls_kernels *kernels);

static void each_width(check *of) {
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        if (widths[i].kernels && has(widths[i].needs)) of(widths[i].name, widths[i].kernels);
}

// --- arrays --------------------------------------------------------------------------------------

static void *new_bytes(size_t bytes) { // aligned as malloc does
    void *memory = malloc(bytes ? bytes : 1);
    assert_non_null(memory);
    return memory;
}

static float *new_lines(size_t floats) { // aligned to a cache line
    void *memory = NULL;
    assert_int_equal(posix_memalign(&memory, 64, (floats ? floats : 1) * sizeof(float)), 0);
    return memory;
}

static float number(uint32_t i) { // in [-1, 1)
    i = (i ^ i >> 16) * 0x85EBCA6BU;
    i = (i ^ i >> 13) * 0xC2B2AE35U;
    return (float)((i ^ i >> 16) >> 8) * 0x1p-23F - 1;
}

static void fill(float *x, size_t count, uint32_t seed) {
    for (size_t i = 0; i < count; i++) x[i] = number(seed * 7919U + (uint32_t)i);
}

static float *new_numbers(size_t count, uint32_t seed) {
    float *x = new_bytes(count * sizeof *x);
    fill(x, count, seed);
    return x;
}

static void near(const char *name, const char *what, size_t at, double got, double expected, double tolerance) {
    if (!(fabs(got - expected) <= tolerance))
        fail_msg("%s, %s: element %zu is %.9g, expected %.9g (+-%.2g)", name, what, at, got, expected, tolerance);
}

// --- element by element --------------------------------------------------------------------------

static const size_t counts[] = { 0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 100 };
enum { COUNTS = sizeof counts / sizeof *counts };

static void check_elementwise(const char *name, const ls_kernels *k) {
    for (size_t c = 0; c < COUNTS; c++)
        for (size_t shift = 0; shift < 2; shift++) { // addresses beside the vector's alignment
            const size_t n = counts[c];
            float *a = new_numbers(n + shift, 1), *b = new_numbers(n + shift, 2), *to = new_numbers(n + shift, 3);
            const float *x = a + shift, *y = b + shift;
            float *out = to + shift;
            k->relu_forward(x, NULL, out, n, NULL);
            for (size_t i = 0; i < n; i++) near(name, "relu", i, (double)out[i], x[i] > 0 ? (double)x[i] : 0, 0);
            k->relu_backward(x, y, out, n, NULL);
            for (size_t i = 0; i < n; i++)
                near(name, "relu backward", i, (double)out[i], x[i] > 0 ? (double)y[i] : 0, 0);
            k->add(x, y, out, n, NULL);
            for (size_t i = 0; i < n; i++) near(name, "add", i, (double)out[i], (double)(x[i] + y[i]), 0);
            k->scale(x, NULL, out, n, &(ls_elementwise_attr){ .factor = 0.25F });
            for (size_t i = 0; i < n; i++) near(name, "scale", i, (double)out[i], (double)(x[i] * 0.25F), 0);
            free(a), free(b), free(to);
        }
}

static void element_by_element(void **unused) {
    (void)unused;
    each_width(check_elementwise);
}

// --- bf16 ----------------------------------------------------------------------------------------

static const struct {
    const char *name;
    const ls_kernels *kernels;
    needs needs; // the instruction of AVX512-BF16 rounds what is below 2^-126 to 0
} bf16_widths[] = {
    { "width 1 of any processor", &ls_kernels_v1b_bf16, NOTHING },
    { "width 4", &ls_kernels_v4_bf16, NOTHING },
#if defined(__x86_64__)
    { "width 1", &ls_kernels_v1_bf16, AVX2 },
    { "width 4 fused", &ls_kernels_v4e_bf16, AVX2 },
    { "width 8", &ls_kernels_v8_bf16, AVX2 },
    { "width 16", &ls_kernels_v16_bf16, AVX512 },
    { "width 16 by the processor", &ls_kernels_v16n_bf16, AVX512_BF16 },
    { "width 16 emulated", &ls_kernels_v16e_bf16, AVX2 },
#endif
};

static int is_tiny(float x) {
    return fabsf(x) > 0 && fabsf(x) < 0x1p-126F;
}

// Every bf16, and floats below, between and above them, ties among these: as base/half.h has it.
static void check_bf16(const char *name, const ls_kernels *k, int native) {
    static const uint16_t below[] = { 0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF };
    enum { ALL = 65536 };
    float *x = new_bytes(ALL * sizeof *x);
    uint16_t *narrow = new_bytes(ALL * sizeof *narrow);
    for (size_t b = 0; b < sizeof below / sizeof *below; b++) {
        for (uint32_t i = 0; i < ALL; i++) {
            const uint32_t bits = i << 16 | below[b];
            memcpy(&x[i], &bits, sizeof bits);
        }
        k->from_floats(x, narrow, ALL);
        for (uint32_t i = 0; i < ALL; i++) {
            const uint16_t expected = ls_bf16_from_float(x[i]);
            if (narrow[i] != expected && !(native && is_tiny(x[i]) && (narrow[i] & 0x7FFF) == 0))
                fail_msg("%s: %08x is rounded to %04x, expected %04x", name, i << 16 | below[b], narrow[i], expected);
        }
    }
    for (uint32_t i = 0; i < ALL; i++) narrow[i] = (uint16_t)i;
    k->to_floats(narrow, x, ALL);
    for (uint32_t i = 0; i < ALL; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        if (bits != i << 16) fail_msg("%s: %04x becomes %08x", name, i, bits);
    }
    free(x), free(narrow);
}

// Any number of elements, at any address; nothing behind them is written.
static void check_bf16_counts(const char *name, const ls_kernels *k) {
    enum { GUARD = 0xABCD, MOST = 102 };
    for (size_t c = 0; c < COUNTS; c++)
        for (size_t shift = 0; shift < 2; shift++) {
            const size_t n = counts[c];
            float x[MOST], back[MOST];
            uint16_t a[MOST], sum[MOST];
            fill(x, MOST, 5);
            for (size_t i = 0; i < MOST; i++) a[i] = sum[i] = GUARD, back[i] = 7;
            k->from_floats(x, a + shift, n);
            k->to_floats(a + shift, back + shift, n);
            k->add(a + shift, a + shift, sum + shift, n, NULL);
            for (size_t i = 0; i < n; i++) {
                const float value = ls_float_from_bf16(ls_bf16_from_float(x[i]));
                near(name, "to bf16 and back", i, (double)back[shift + i], (double)value, 0);
                near(name, "add", i, (double)ls_float_from_bf16(sum[shift + i]), 2 * (double)value, 0);
            }
            assert_int_equal(a[shift + n], GUARD);
            assert_int_equal(sum[shift + n], GUARD);
            assert_true(back[shift + n] == 7);
        }
}

static void bf16_is_rounded(void **unused) {
    (void)unused;
    for (size_t i = 0; i < sizeof bf16_widths / sizeof *bf16_widths; i++) {
        if (!bf16_widths[i].kernels || !has(bf16_widths[i].needs)) continue;
        check_bf16(bf16_widths[i].name, bf16_widths[i].kernels, bf16_widths[i].needs == AVX512_BF16);
        check_bf16_counts(bf16_widths[i].name, bf16_widths[i].kernels);
    }
}

// --- the update's flat loops ---------------------------------------------------------------------

static void check_fixed(const char *name, const ls_kernels *k, size_t n) {
    float *grad = new_numbers(n, 5);
    int64_t *fixed = new_bytes(n * sizeof *fixed);
    for (size_t i = 0; i < n; i++) fixed[i] = (int64_t)i;
    assert_int_equal(k->to_fixed_point(grad, 0x1p40, 2, fixed, n), 0);
    for (size_t i = 0; i < n; i++)
        if (fixed[i] != (int64_t)i + (int64_t)rint((double)grad[i] * 0x1p39))
            fail_msg("%s, to_fixed_point of %zu: element %zu is %lld", name, n, i, (long long)fixed[i]);
    k->from_fixed_point(fixed, 0x1p-40, 2, grad, n);
    for (size_t i = 0; i < n; i++)
        near(name, "from_fixed_point", i, (double)grad[i], (double)(float)((double)fixed[i] * 0x1p-39), 0);
    if (n > 0) { // the last element is not forgotten
        grad[n - 1] = INFINITY;
        assert_int_equal(k->to_fixed_point(grad, 1, 1, fixed, n), 1);
    }
    free(grad), free(fixed);
}

static void check_stats(const char *name, const ls_kernels *k, size_t n) {
    float *grad = new_numbers(n, 6);
    double sum = 0, partial[2];
    for (size_t i = 0; i < n; i++) sum += (double)grad[i] * (double)grad[i];
    k->grad_stats(grad, n, partial);
    near(name, "grad_stats", n, partial[0], sum, 1e-14 * (sum + 1));
    assert_true(partial[1] == 0);
    if (n > 0) {
        grad[n - 1] = NAN;
        k->grad_stats(grad, n, partial);
        assert_true(partial[1] == 1);
    }
    free(grad);
}

static void check_steps(const char *name, const ls_kernels *k, size_t n) {
    const ls_kernel_step step = { .multiplier = 0.5F,
        .lr = 0.1F,
        .decay = 0.01F,
        .momentum = 0.9F,
        .beta1 = 0.9F,
        .beta2 = 0.99F,
        .rest1 = 0.1F,
        .rest2 = 0.01F,
        .eps = 1e-8F,
        .correction1 = 2,
        .correction2 = 3,
        .nesterov = 1 };
    float *grad = new_numbers(n, 7), *m = new_numbers(n, 8), *v = new_numbers(n, 9), *w = new_numbers(n, 10);
    double *expected = new_bytes(n * sizeof *expected);
    for (size_t i = 0; i < n; i++) {
        const double g = (double)grad[i] * 0.5 + 0.01 * (double)w[i], momentum = 0.9 * (double)m[i] + g;
        expected[i] = (double)w[i] - 0.1 * (g + 0.9 * momentum);
    }
    k->sgd(&step, grad, (float *[]){ m }, w, n);
    for (size_t i = 0; i < n; i++) near(name, "sgd", i, (double)w[i], expected[i], 1e-6);
    for (size_t i = 0; i < n; i++) {
        v[i] = v[i] * v[i];
        const double g = (double)grad[i] * 0.5, m1 = 0.9 * (double)m[i] + 0.1 * g;
        const double m2 = 0.99 * (double)v[i] + 0.01 * g * g;
        expected[i] = (double)w[i] * (1 - 0.1 * 0.01) - 0.1 * m1 * 2 / (sqrt(m2) * 3 + 1e-8);
    }
    k->adamw(&step, grad, (float *[]){ m, v }, w, n);
    for (size_t i = 0; i < n; i++) near(name, "adamw", i, (double)w[i], expected[i], 1e-5 * (1 + fabs(expected[i])));
    for (size_t i = 0; i < n; i++) {
        const double g = (double)grad[i] * 0.5 + 0.01 * (double)w[i], square = 0.99 * (double)v[i] + 0.01 * g * g;
        expected[i] = (double)w[i] - 0.1 * (0.9 * (double)m[i] + g / (sqrt(square) + 1e-8));
    }
    k->rmsprop(&step, grad, (float *[]){ v, m }, w, n);
    for (size_t i = 0; i < n; i++) near(name, "rmsprop", i, (double)w[i], expected[i], 1e-5 * (1 + fabs(expected[i])));
    for (size_t i = 0; i < n; i++) {
        const double g = (double)grad[i] * 0.5; // near where momentum and gradient outweigh each other: m = -g/9
        m[i] = (float)(g * (i % 2 ? -0.105 : -0.12));
        const double direction = 0.9 * (double)m[i] + 0.1 * g;
        v[i] = (float)(0.99 * (double)m[i] + 0.01 * g);
        expected[i] = (double)w[i] * (1 - 0.1 * 0.01) - 0.1 * (direction > 0 ? 1 : -1);
    }
    k->lion(&step, grad, (float *[]){ m }, w, n);
    for (size_t i = 0; i < n; i++) {
        near(name, "lion", i, (double)w[i], expected[i], 1e-6);
        near(name, "lion's momentum", i, (double)m[i], (double)v[i], 1e-6);
    }
    free(grad), free(m), free(v), free(w), free(expected);
}

static void check_update(const char *name, const ls_kernels *k) {
    for (size_t c = 0; c < COUNTS; c++) {
        check_fixed(name, k, counts[c]);
        check_stats(name, k, counts[c]);
        check_steps(name, k, counts[c]);
    }
}

static void updates_of_any_count(void **unused) {
    (void)unused;
    each_width(check_update);
}

// --- matrix products: every rest of the register tile; depths about a chunk's --------------------

typedef struct {
    int m, n, k;
    int transposed; // bits: A's, B's rows lie side by side
    int accumulate, bias;
    int columns; // of B that are there
} gemm_case;

static double gemm_expected(const ls_kernel_gemm *g, int i, int j) {
    double sum = 0;
    for (int l = 0; l < g->k && j < g->columns; l++)
        sum += (double)g->a[(size_t)i * g->a_m + (size_t)l * g->a_k] *
               (double)g->b[(size_t)l * g->b_k + (size_t)j * g->b_n];
    return sum;
}

static void check_product(const char *name, const ls_kernels *k, const gemm_case *g) {
    const size_t m = (size_t)g->m, n = (size_t)g->n, depth = (size_t)g->k, columns = (size_t)g->columns;
    float *a = new_numbers(m * depth, 11), *b = new_numbers(depth * columns, 12), *c = new_numbers(m * n, 13);
    float *before = new_numbers(m * n, 13), *bias = new_numbers(n, 14);
    float *panel = new_numbers(LS_GEMM_DEPTH * (size_t)k->gemm_cols, 15); // whatever lay there
    const ls_kernel_gemm gemm = { .a = a,
        .a_m = g->transposed & 1 ? 1 : depth,
        .a_k = g->transposed & 1 ? m : 1,
        .b = b,
        .b_k = g->transposed & 2 ? 1 : columns,
        .b_n = g->transposed & 2 ? depth : 1,
        .panel = panel,
        .c = c,
        .c_m = n,
        .bias = g->bias ? bias : NULL,
        .m = g->m,
        .n = g->n,
        .k = g->k,
        .columns = g->columns,
        .accumulate = g->accumulate };
    k->gemm(&gemm);
    for (int i = 0; i < g->m; i++)
        for (int j = 0; j < g->n; j++) {
            const size_t at = (size_t)i * n + (size_t)j;
            double expected = gemm_expected(&gemm, i, j);
            if (g->accumulate)
                expected += (double)before[at];
            else if (g->bias)
                expected += (double)bias[j];
            char what[128];
            snprintf(what, sizeof what, "gemm %d x %d (%d) x %d%s%s%s%s", g->m, g->n, g->columns, g->k,
                g->transposed & 1 ? ", A transposed" : "", g->transposed & 2 ? ", B transposed" : "",
                g->accumulate ? ", added" : "", g->bias ? ", bias" : "");
            near(name, what, at, (double)c[at], expected, 2e-7 * (8 + g->k));
        }
    free(a), free(b), free(c), free(before), free(bias), free(panel);
}

static void check_gemm(const char *name, const ls_kernels *k) {
    const int columns[] = { 1, k->width, k->gemm_cols - 1, k->gemm_cols, k->gemm_cols + 1, 2 * k->gemm_cols };
    const int depths[] = { 1, 2, 2 * k->width + 1, 255, 256, 257 };
    for (int m = 1; m <= 2 * k->gemm_rows + 1; m++)
        for (size_t n = 0; n < sizeof columns / sizeof *columns; n++)
            for (size_t d = 0; d < sizeof depths / sizeof *depths; d++) {
                if (columns[n] < 1 || (m > k->gemm_rows + 1 && depths[d] > 2)) continue;
                const int way = (m + 5 * (int)n + (int)d) % 12; // all twelve over the table
                const int missing = d == 1 && columns[n] > k->width ? k->width - 1 : 0;
                check_product(name, k,
                    &(gemm_case){
                        m, columns[n], depths[d], way % 4, way / 4 == 1, way / 4 == 2, columns[n] - missing });
            }
}

static void products_of_any_size(void **unused) {
    (void)unused;
    each_width(check_gemm);
}

static void check_columns(const char *name, const ls_kernels *k) {
    for (int rows = 0; rows < 4; rows++)
        for (int columns = 0; columns <= 2 * k->width + 1; columns++) {
            const size_t stride = (size_t)columns + 3, last = rows ? (size_t)(rows - 1) * stride + (size_t)columns : 0;
            float *a = new_numbers(last, 15), *sums = new_numbers((size_t)columns, 16);
            k->column_sums(a, stride, rows, columns, sums);
            for (int j = 0; j < columns; j++) {
                double expected = (double)number(16 * 7919U + (uint32_t)j);
                for (int i = 0; i < rows; i++) expected += (double)a[(size_t)i * stride + (size_t)j];
                near(name, "column_sums", (size_t)j, (double)sums[j], expected, 1e-6);
            }
            free(a), free(sums);
        }
}

static void column_sums_of_any_size(void **unused) {
    (void)unused;
    each_width(check_columns);
}

// --- batch norm's sums: pixels about a segment's end; no samples; a mean far from zero -----------

// Around `middle` in steps that fp32 can just tell from it: a sum of squares about another mean would lose them.
static float *new_around(float middle, size_t count, uint32_t seed) {
    float *x = new_numbers(count, seed);
    for (size_t i = 0; middle > 0 && i < count; i++) x[i] = middle + rintf(x[i] * 1024) / 2048;
    return x;
}

static void check_sums_around(const char *name, const ls_kernels *k, float middle) {
    static const int pixels[] = { 1, 2, 3, 5, 255, 256, 257, 513 };
    const size_t width = (size_t)k->width;
    for (size_t p = 0; p < sizeof pixels / sizeof *pixels; p++)
        for (int samples = 0; samples < 3; samples++) {
            const size_t plane = (size_t)pixels[p] * width, stride = plane + width; // a channel block's neighbour
            const size_t all = samples ? (size_t)(samples - 1) * stride + plane : 0;
            float *x = new_around(middle, all, 17), *g = new_numbers(all, 18), *mean = new_around(middle, width, 19);
            double *sums = new_bytes(2 * width * sizeof *sums), *dots = new_bytes(2 * width * sizeof *dots);
            const ls_kernel_span span = { .stride = stride, .samples = samples, .pixels = pixels[p] };
            k->norm_stats(&span, x, sums);
            k->norm_grad_sums(&span, &(ls_kernel_norm_grad){ .src = x, .grad_dst = g }, mean, dots);
            for (size_t c = 0; c < width; c++) {
                double grads = 0, dot = 0;
                long double sum = 0, squares = 0;
                for (int n = 0; n < samples; n++)
                    for (int i = 0; i < pixels[p]; i++) {
                        const size_t at = (size_t)n * stride + (size_t)i * width + c;
                        sum += (long double)x[at], squares += (long double)x[at] * (long double)x[at];
                        grads += (double)g[at], dot += (double)g[at] * ((double)x[at] - (double)mean[c]);
                    }
                const double tolerance = 1e-6 * (1 + pixels[p]);
                near(name, "norm_stats, sum", c, sums[c], (double)sum, tolerance);
                near(name, "norm_stats, squares", c, sums[width + c], (double)squares, tolerance);
                near(name, "norm_grad_sums, sum", c, dots[c], grads, tolerance);
                near(name, "norm_grad_sums, products", c, dots[width + c], dot, tolerance);
            }
            free(x), free(g), free(mean), free(sums), free(dots);
        }
}

static void check_sums(const char *name, const ls_kernels *k) {
    check_sums_around(name, k, 0);
    check_sums_around(name, k, 4096);
}

static void norm_sums_of_any_size(void **unused) {
    (void)unused;
    each_width(check_sums);
}

// --- batch norm past the cache, as large tensors are written: the same bits ----------------------

static void check_stream(const char *name, const ls_kernels *k) {
    enum { PIXELS = 3, SAMPLES = 2, TENSORS = 3 };
    const size_t width = (size_t)k->width, plane = PIXELS * width, all = 2 * SAMPLES * plane; // every other plane
    float *in[4], *out[2][TENSORS], *constants = new_numbers(5 * width, 34);
    for (uint32_t t = 0; t < 4; t++) in[t] = new_numbers(all, 30 + t);
    for (int t = 0; t < 2 * TENSORS; t++) out[t / TENSORS][t % TENSORS] = new_lines(all);
    for (int a = 0; a < LS_ACTIVATION_COUNT; a++)
        for (int residual = 0; residual < 2; residual++) {
            for (int stream = 0; stream < 2; stream++) {
                const ls_kernel_span span = {
                    .stride = 2 * plane, .samples = SAMPLES, .pixels = PIXELS, .stream = stream
                };
                for (int t = 0; t < TENSORS; t++) memset(out[stream][t], 0, all * sizeof(float));
                k->norm_apply(&span, in[0], residual ? in[1] : NULL, (ls_activation)a, 0.3F, constants, out[stream][0]);
                k->norm_grad_apply(&span,
                    &(ls_kernel_norm_grad){ .activation = (ls_activation)a,
                        .parameter = 0.3F,
                        .src = in[0],
                        .dst = in[1],
                        .grad_dst = in[2],
                        .grad_dst2 = residual ? in[3] : NULL,
                        .grad_src = out[stream][1],
                        .grad_residual = residual ? out[stream][2] : NULL },
                    constants);
            }
            for (int t = 0; t < TENSORS; t++)
                if (memcmp(out[0][t], out[1][t], all * sizeof(float)) != 0)
                    fail_msg("%s: activation %d, tensor %d differs", name, a, t);
        }
    for (int t = 0; t < 4; t++) free(in[t]);
    for (int t = 0; t < 2 * TENSORS; t++) free(out[t / TENSORS][t % TENSORS]);
    free(constants);
}

static void norm_past_the_cache(void **unused) {
    (void)unused;
    each_width(check_stream);
}

// --- dropout: channels that begin anywhere in a counter's four words, counters beyond 32 bits ------

static void check_dropout(const char *name, const ls_kernels *k) {
    static const struct {
        uint64_t word;
        int pixels;
    } rows[] = { { 0, 4 }, { 3, 1 }, { 5, 9 }, { 2, 35 }, { ((uint64_t)4 << 32) - 6, 35 },
        { ((uint64_t)1 << 40) + 1, 6 } };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (int channels = 1; channels <= k->width; channels++) {
            const ls_kernel_dropout dropout = { .word = rows[r].word,
                .key = { 99, 7 ^ (uint32_t)LS_PURPOSE_DROPOUT * 0x9E3779B9u },
                .a = 3,
                .b = 12,
                .pixels = rows[r].pixels,
                .channels = channels,
                .p = 0.4F };
            const size_t count = (size_t)(rows[r].pixels * k->width);
            float *src = new_numbers(count, 1), *dst = new_bytes(count * sizeof *dst);
            k->dropout(&dropout, src, dst);
            for (size_t i = 0; i < count; i++) {
                const size_t c = i % (size_t)k->width, pixel = i / (size_t)k->width;
                const uint64_t word = rows[r].word + c * (size_t)rows[r].pixels + pixel;
                const float unit =
                    ls_unit_float(ls_random_word((uint64_t)7 << 32 | 99, LS_PURPOSE_DROPOUT, 3, 12, word));
                const float kept = (int)c < channels && unit >= dropout.p ? src[i] / (1 - dropout.p) : 0;
                near(name, "dropout", i, (double)dst[i], (double)kept, 0);
            }
            free(src), free(dst);
        }
}

static void dropout_is_the_streams(void **unused) {
    (void)unused;
    each_width(check_dropout);
}

// --- pooling: no planes, and windows that lie in the padding but for one element -----------------

static void check_pool(const char *name, const ls_kernels *k) {
    const size_t width = (size_t)k->width;
    const ls_kernel_pool shape = { .h = 1,
        .w = 1,
        .p = 2,
        .q = 2,
        .kernel_h = 2,
        .kernel_w = 2,
        .stride_h = 1,
        .stride_w = 1,
        .pad_h = 1,
        .pad_w = 1 };
    float *src = new_lines(3 * width), *dst = new_lines(3 * 4 * width), *grad = new_lines(3 * width);
    uint8_t *index = new_bytes(3 * 4 * width);
    k->pool_max_forward(&shape, 0, NULL, NULL, NULL);
    k->pool_max_backward(&shape, 0, NULL, NULL, NULL);
    for (int planes = 1; planes <= 3; planes++) {
        const size_t all = (size_t)planes * width;
        fill(src, all, 20);
        memset(dst, 0xff, 4 * all * sizeof *dst);
        k->pool_max_forward(&shape, planes, src, dst, index);
        for (size_t i = 0; i < 4 * all; i++) { // each of the four windows has the one pixel, at another place
            const size_t window = i / width % 4, pixel = i / width / 4 * width + i % width;
            near(name, "pool of one pixel", i, (double)dst[i], (double)src[pixel], 0);
            near(name, "its index", i, index[i], 3 - (double)window, 0);
        }
        k->pool_max_backward(&shape, planes, dst, index, grad);
        for (size_t i = 0; i < all; i++) near(name, "its gradient", i, (double)grad[i], 4 * (double)src[i], 1e-6);
    }
    free(src), free(dst), free(grad), free(index);
}

static void pools_of_one_pixel(void **unused) {
    (void)unused;
    each_width(check_pool);
}

// --- Winograd's products: every rest of panels; the result written and added to ------------------

static const char *wide(const ls_winograd_kernels *k) {
    return k->width == 4 ? "width 4" : k->width == 8 ? "width 8" : "width 16";
}

// half: of the in channels' last block and of the outputs' only the first half is there.
static void check_winograd_product(const ls_winograd_kernels *k, int in_blocks, int panel_blocks, int half, int tiles) {
    const ls_winograd_channels channels = { .blocks = in_blocks, .each = in_blocks, .half = half };
    const size_t width = (size_t)k->width, v_block = (size_t)tiles * width + 16, in = (size_t)in_blocks * width;
    const size_t panel = (size_t)panel_blocks * width;
    float *v = new_lines((size_t)in_blocks * v_block), *u = new_lines(in * panel);
    float *m = new_lines((size_t)panel_blocks * v_block);
    fill(v, (size_t)in_blocks * v_block, 21);
    fill(u, in * panel, 22);
    memset(m, 0xff, (size_t)panel_blocks * v_block * sizeof *m);
    k->product(v, v_block, &channels, u, panel_blocks, half, m, v_block, tiles);
    for (int o = 0; o < panel_blocks; o++) {
        const float *filters = u + (size_t)o * width;
        for (size_t at = 0; at < (size_t)tiles * width; at++) {
            double expected = 0;
            const int there = !half || o + 1 < panel_blocks || at % width < width / 2;
            for (size_t i = 0; there && i < (half ? in - width / 2 : in); i++)
                expected += (double)v[i / width * v_block + at / width * width + i % width] *
                            (double)filters[i * panel + at % width];
            near("winograd product", wide(k), at, (double)m[(size_t)o * v_block + at], expected,
                1e-7 * (16 + (double)in));
        }
    }
    free(v), free(u), free(m);
}

static void check_winograd_sum(
    const ls_winograd_kernels *k, int in_blocks, int out_blocks, int half, int tiles, int add) {
    const ls_winograd_channels channels = { .blocks = in_blocks, .each = in_blocks, .half = half };
    const size_t width = (size_t)k->width, block = (size_t)tiles * width + 16, in = (size_t)in_blocks * width;
    const size_t count = in * (size_t)out_blocks * width;
    float *v = new_lines((size_t)in_blocks * block), *z = new_lines((size_t)out_blocks * block);
    float *a = new_lines(count), *before = new_lines(count);
    fill(v, (size_t)in_blocks * block, 23);
    fill(z, (size_t)out_blocks * block, 24);
    fill(before, count, 25);
    memcpy(a, before, count * sizeof *a);
    if (!add) memset(a, 0xff, count * sizeof *a);
    if (half) // what is not there is zero
        for (size_t t = 0; t < (size_t)tiles; t++)
            memset(z + (size_t)(out_blocks - 1) * block + t * width + width / 2, 0, width / 2 * sizeof *z);
    k->sum(v, block, &channels, z, block, out_blocks, half, add, a, tiles);
    for (size_t at = 0; at < count; at++) {
        const size_t first = at / (in * width * LS_WINOGRAD_SUM_PANEL) * LS_WINOGRAD_SUM_PANEL; // block
        const size_t left = (size_t)out_blocks - first,
                     panel = left < LS_WINOGRAD_SUM_PANEL ? left : LS_WINOGRAD_SUM_PANEL;
        const size_t inside = at - first * width * in, i = inside / (panel * width), o = inside % (panel * width);
        const float *from = v + i / width * block + i % width;
        const float *to = z + (first + o / width) * block + o % width;
        if (half && i >= in - width / 2) continue;
        if (half && first + o / width + 1 == (size_t)out_blocks && o % width >= width / 2) {
            if (a[at] != 0) fail_msg("winograd sum, width %d: %g instead of 0", k->width, (double)a[at]);
            continue;
        }
        double expected = add ? (double)before[at] : 0;
        for (size_t t = 0; t < (size_t)tiles; t++) expected += (double)from[t * width] * (double)to[t * width];
        near("winograd sum", wide(k), at, (double)a[at], expected, 1e-7 * (16 + tiles));
    }
    free(v), free(z), free(a), free(before);
}

static void check_winograd(const ls_winograd_kernels *k) {
    for (int half = 0; half <= 1; half++) {
        for (int in = 1; in <= 3; in++)
            for (int out = 1; out <= 7; out++)
                for (int times = 1; times <= 3; times += 2) {
                    if (out <= LS_WINOGRAD_PANEL) check_winograd_product(k, in, out, half, times * k->product_tiles);
                    check_winograd_sum(k, in, out, half, times * LS_WINOGRAD_SUM_TILES, times == 1 || out % 2);
                    check_winograd_sum(k, in, out, half, times * LS_WINOGRAD_SUM_TILES, 0);
                }
        for (int out = 1; out <= LS_WINOGRAD_PANEL; out++) // in channels in two parts
            check_winograd_product(k, 256 / k->width + 1, out, half, k->product_tiles);
    }
}

static void winograd_products_of_any_size(void **unused) {
    (void)unused;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        if (widths[i].kernels && has(widths[i].needs) && widths[i].kernels->winograd)
            check_winograd(widths[i].kernels->winograd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(element_by_element),
        cmocka_unit_test(bf16_is_rounded),
        cmocka_unit_test(updates_of_any_count),
        cmocka_unit_test(products_of_any_size),
        cmocka_unit_test(column_sums_of_any_size),
        cmocka_unit_test(norm_sums_of_any_size),
        cmocka_unit_test(norm_past_the_cache),
        cmocka_unit_test(dropout_is_the_streams),
        cmocka_unit_test(pools_of_one_pixel),
        cmocka_unit_test(winograd_products_of_any_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
