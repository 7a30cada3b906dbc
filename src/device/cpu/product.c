// product.c - matrix products C = A * B: B is packed into panels, tiles of C are tasks.
#include "device/cpu/cpu.h"

enum { TILE_ROWS = 36, PACK_DEPTH = 512 }; // a tile: rows x two panels; a packing task: one panel, so deep

static int panels_of(const ls_cpu *cpu, int n) {
    return (n + cpu->kernels->gemm_cols - 1) / cpu->kernels->gemm_cols;
}

static int depth_tiles(const ls_cpu_product *p) {
    return (p->k + PACK_DEPTH - 1) / PACK_DEPTH;
}

static int row_tiles(const ls_cpu_product *p) {
    return (p->m + TILE_ROWS - 1) / TILE_ROWS;
}

size_t ls_cpu_product_bytes(const ls_cpu *cpu, int n, int k) {
    return (size_t)panels_of(cpu, n) * (size_t)k * (size_t)cpu->kernels->gemm_cols * sizeof(float);
}

static void pack_task(void *context, int task, int thread) {
    (void)thread;
    const ls_cpu_product *p = context;
    const ls_kernels *kernels = p->cpu->kernels;
    int panel = task / depth_tiles(p), k = task % depth_tiles(p) * PACK_DEPTH, cols = kernels->gemm_cols;
    int depth = p->k - k < PACK_DEPTH ? p->k - k : PACK_DEPTH;
    int n = p->columns - panel * cols < cols ? p->columns - panel * cols : cols;
    const float *b = p->b + (size_t)k * p->b_k + (size_t)(panel * cols) * p->b_n;
    kernels->gemm_pack(
        b, p->b_k, p->b_n, depth, n, p->panels + ((size_t)panel * (size_t)p->k + (size_t)k) * (size_t)cols);
}

static void tile_task(void *context, int task, int thread) {
    (void)thread;
    const ls_cpu_product *p = context;
    const ls_kernels *kernels = p->cpu->kernels;
    int cols = kernels->gemm_cols, m = task % row_tiles(p) * TILE_ROWS, panel = task / row_tiles(p) * 2;
    int n = p->n - panel * cols < 2 * cols ? p->n - panel * cols : 2 * cols;
    ls_kernel_gemm gemm = { .a = p->a + (size_t)m * p->a_m,
        .a_m = p->a_m,
        .a_k = p->a_k,
        .panel_stride = (size_t)p->k * (size_t)cols,
        .c_m = p->c_m,
        .n = n,
        .k = p->k,
        .accumulate = p->accumulate };
    gemm.m = p->m - m < TILE_ROWS ? p->m - m : TILE_ROWS;
    gemm.b = p->panels + (size_t)panel * gemm.panel_stride;
    gemm.c = p->c + (size_t)m * p->c_m + panel * cols;
    if (p->bias) gemm.bias = p->bias + panel * cols;
    kernels->gemm(&gemm);
}

void ls_cpu_product_run(const ls_cpu_product *p) {
    const int panels = panels_of(p->cpu, p->n);
    void *context = (void *)(uintptr_t)p;
    ls_pool_run(p->cpu->pool, pack_task, context, panels * depth_tiles(p));
    ls_pool_run(p->cpu->pool, tile_task, context, row_tiles(p) * ((panels + 1) / 2));
}
