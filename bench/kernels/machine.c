// machine.c - the machine's limits, measured: multiply-adds on registers, oneDNN's sgemm, a copy of large arrays.
#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "system/cpus.h"
#include "bench.h"

enum { CHAINS = 12, ROUNDS = 8, SQUARE = 1024, COPY_FLOATS = 12 << 20 };
static const double FMA_COUNT = 1e7; // of each chain

// Twelve independent chains of multiply-adds: enough for two units with a latency of up to six cycles.
#define FMA_CHAINS(type, instruction, constraint) \
    type a[CHAINS] = { { 0 } }, x = { 0 }; \
    for (long i = 0; i < count; i++) \
    __asm__ volatile(instruction(0) instruction(1) instruction(2) instruction(3) instruction(4) instruction(5) \
                         instruction(6) instruction(7) instruction(8) instruction(9) instruction(10) instruction(11) \
                     : "+" constraint(a[0]), "+" constraint(a[1]), "+" constraint(a[2]), "+" constraint(a[3]), \
                     "+" constraint(a[4]), "+" constraint(a[5]), "+" constraint(a[6]), "+" constraint(a[7]), \
                     "+" constraint(a[8]), "+" constraint(a[9]), "+" constraint(a[10]), "+" constraint(a[11]) \
                     : constraint(x))
#define FMA(n) "vfmadd231ps %12, %12, %" #n "\n\t"

typedef float floats_8 __attribute__((vector_size(32)));
typedef float floats_16 __attribute__((vector_size(64)));

__attribute__((target("avx2,fma"))) static void fma_avx2(long count) {
    FMA_CHAINS(floats_8, FMA, "x");
}

__attribute__((target("avx512f"))) static void fma_avx512(long count) {
    FMA_CHAINS(floats_16, FMA, "v");
}

typedef struct {
    int wide;
    float *from, *to;
} copies;

static void fma_task(void *context, int task, int thread) {
    (void)task, (void)thread;
    const copies *c = context;
    if (c->wide)
        fma_avx512((long)FMA_COUNT);
    else
        fma_avx2((long)FMA_COUNT);
}

static void copy_task(void *context, int task, int thread) {
    (void)thread;
    const copies *c = context;
    memcpy(c->to + (size_t)task * COPY_FLOATS, c->from + (size_t)task * COPY_FLOATS, COPY_FLOATS * sizeof(float));
}

// The best of some rounds: limits are what can be reached.
static double best_seconds(ls_pool *pool, ls_pool_task *task, void *context, int tasks) {
    double best = 1e9;
    ls_pool_run(pool, task, context, tasks);
    for (int i = 0; i < ROUNDS; i++) {
        const double start = ls_clock_seconds();
        ls_pool_run(pool, task, context, tasks);
        const double seconds = ls_clock_seconds() - start;
        if (seconds < best) best = seconds;
    }
    return best;
}

// oneDNN shall not start threads of its own: the setting belongs to the calling thread, the function to the OpenMP
// runtime that the library brings along.
static void one_thread(void) {
    static _Thread_local int done;
    union {
        void *symbol;
        void (*function)(int);
    } set_threads = { .symbol = done ? NULL : dlsym(RTLD_DEFAULT, "omp_set_num_threads") };
    if (set_threads.symbol) set_threads.function(1);
    done = 1;
}

static void sgemm_task(void *context, int task, int thread) {
    (void)thread;
    const bench_sgemm *g = context;
    const int first = (int)((int64_t)g->m * task / g->threads), end = (int)((int64_t)g->m * (task + 1) / g->threads);
    const size_t row = (size_t)(g->transpose_a ? 1 : g->k);
    one_thread();
    dnnl_sgemm(g->transpose_a ? 'T' : 'N', g->transpose_b ? 'T' : 'N', end - first, g->n, g->k, 1.0F,
        g->a + (size_t)first * row, g->transpose_a ? g->m : g->k, g->b, g->transpose_b ? g->k : g->n,
        g->add ? 1.0F : 0.0F, g->c + (size_t)first * (size_t)g->n, g->n);
}

void bench_sgemm_run(ls_pool *pool, const bench_sgemm *gemm) {
    bench_sgemm g = *gemm;
    ls_pool_run(pool, sgemm_task, &g, g.threads);
}

ls_status bench_machine_measure(bench *b) {
    ls_cpus cpus;
    ls_cpus_detect(&cpus);
    const size_t floats = (size_t)b->threads * COPY_FLOATS;
    copies c = { .wide = cpus.has_avx512 };
    ls_status status;
    LS_TRY(bench_floats(floats, &c.from));
    LS_TRY_GOTO(bench_floats(floats, &c.to));
    bench_fill_normal(c.from, floats, 1);
    const double threads = b->threads, lanes = c.wide ? 16 : 8;
    b->machine.fma_gflops =
        threads * FMA_COUNT * CHAINS * lanes * 2 / best_seconds(b->pool, fma_task, &c, b->threads) * 1e-9;
    b->machine.copy_gbytes =
        2 * (double)(floats * sizeof(float)) / best_seconds(b->pool, copy_task, &c, b->threads) * 1e-9;
    bench_sgemm g = {
        .m = SQUARE * b->threads, .n = SQUARE, .k = SQUARE, .a = c.from, .b = c.from, .c = c.to, .threads = b->threads
    };
    b->machine.sgemm_gflops =
        2 * threads * SQUARE * SQUARE * SQUARE / best_seconds(b->pool, sgemm_task, &g, b->threads) * 1e-9;
done:
    free(c.from);
    free(c.to);
    return status;
}
