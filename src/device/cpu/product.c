// product.c - matrix products C = A * B. A task computes a tile of C. The tile size does not change any bit of C.
#include "device/cpu/cpu.h"

enum {
    // rows of a tile, at most: the tile's part of A, one chunk deep, stays in the second-level cache
    ROWS_MAX = 192,
    TASKS_OF_A_THREAD = 4,       // at least, if the product is large enough: threads then finish at about the same time
    PRODUCTS_OF_A_TASK = 1 << 16 // multiplications in a task, at least: they take about a microsecond
};

typedef struct {
    const ls_cpu_product *product;
    int rows, columns; // size of a tile
    int row_tiles;
} tiling;

static int tiles(int all, int of_each) {
    return (all + of_each - 1) / of_each;
}

static int larger(int a, int b) {
    return a > b ? a : b;
}

static tiling cut(const ls_cpu_product *p) {
    const int panel = p->cpu->kernels->gemm_cols, threads = p->cpu->threads;
    const int wanted = threads > 1 ? threads * TASKS_OF_A_THREAD : 1;
    const int rows_of_a_task = tiles(PRODUCTS_OF_A_TASK / panel, p->k);
    int rows = larger(tiles(p->m, tiles(wanted, tiles(p->n, panel))), rows_of_a_task);
    rows = tiles(rows, p->cpu->kernels->gemm_rows) * p->cpu->kernels->gemm_rows;
    if (rows > ROWS_MAX) rows = ROWS_MAX;
    if (rows > p->m) rows = p->m;
    const int row_tiles = tiles(p->m, rows), spare = tiles(p->n, panel) * row_tiles / wanted;
    const int panels = larger(tiles(rows_of_a_task, rows), spare);
    return (tiling){ p, rows, panels * panel, row_tiles };
}

static void tile_task(void *context, int task, int thread) {
    const tiling *cuts = context;
    const ls_cpu_product *p = cuts->product;
    const int m = task % cuts->row_tiles * cuts->rows, n = task / cuts->row_tiles * cuts->columns;
    const size_t panel = (size_t)LS_GEMM_DEPTH * (size_t)p->cpu->kernels->gemm_cols;
    p->cpu->kernels->gemm(&(ls_kernel_gemm){ .a = p->a + (size_t)m * p->a_m,
        .b = p->b + (size_t)n * p->b_n,
        .a_m = p->a_m,
        .a_k = p->a_k,
        .b_k = p->b_k,
        .b_n = p->b_n,
        .panel = p->panels + (size_t)thread * panel,
        .c = p->c + (size_t)m * p->c_m + n,
        .c_m = p->c_m,
        .bias = p->bias ? p->bias + n : NULL,
        .m = p->m - m < cuts->rows ? p->m - m : cuts->rows,
        .n = p->n - n < cuts->columns ? p->n - n : cuts->columns,
        .k = p->k,
        .columns = p->columns - n,
        .accumulate = p->accumulate });
}

size_t ls_cpu_product_bytes(const ls_cpu *cpu) {
    return (size_t)cpu->threads * LS_GEMM_DEPTH * (size_t)cpu->kernels->gemm_cols * sizeof(float);
}

void ls_cpu_product_run(const ls_cpu_product *p) {
    tiling cuts = cut(p);
    ls_pool_run(p->cpu->pool, tile_task, &cuts, cuts.row_tiles * tiles(p->n, cuts.columns));
}
