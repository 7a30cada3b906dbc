#include "device/gpu/norm_rule.h"

enum { CHANNELS = 8, PACK_BYTES = 16 }; // a pixel has whole packs (cuda/cuda.h)

static int at_most(int64_t value, int limit) {
    return value < limit ? (int)value : limit;
}

static int parts_of(int64_t all, int64_t part) {
    return (int)((all + part - 1) / part);
}

// --- two launches ---------------------------------------------------------------------------------

// SUM_BLOCKS: most blocks that add up, two for each multiprocessor of an H100. A thread adds about SUM_PIXELS pixels or
// more, because the last block reads the sums that every other block has written. Other GPUs use the same number of
// blocks, so they get the same bits. APPLY_BLOCKS_EACH: most blocks of the second launch for each multiprocessor.
enum { SUM_BLOCKS = 264, SUM_PIXELS = 4, APPLY_BLOCKS_EACH = 8, APPLY_PIXELS = 4 };

static int pools(const ls_op_desc *desc) { // whether the operator writes a pooled map
    const int forward =
        desc->op == LS_OP_NORM_FORWARD || desc->op == LS_OP_NORM_INFERENCE || desc->op == LS_OP_NORM_APPLY;
    return forward && desc->attr.norm.pool_kernel;
}

static ls_cuda_norm_grid two_launches(const ls_op_desc *desc, int multiprocessors) {
    const ls_norm_attr *a = &desc->attr.norm;
    ls_cuda_norm_grid g = { .channels = (a->shape.c + CHANNELS - 1) / CHANNELS * CHANNELS, .lanes = 1 };
    g.packs = g.channels / (PACK_BYTES / (int)ls_dtype_bytes(a->storage));
    while (g.lanes < g.packs && g.lanes < LS_CUDA_NORM_LANES_MAX) g.lanes *= 2;
    g.columns = parts_of(g.packs, g.lanes);
    g.pixels = a->shape.n * a->shape.h * a->shape.w;
    int rows = LS_CUDA_NORM_SUM_THREADS / g.lanes, most = SUM_BLOCKS / g.columns;
    g.slices = at_most(parts_of(g.pixels, rows * SUM_PIXELS), most > 1 ? most : 1);
    ls_nchw written = pools(desc) ? a->pooled : a->shape;
    int each = LS_CUDA_NORM_APPLY_THREADS / g.lanes * (pools(desc) ? 1 : APPLY_PIXELS);
    most = APPLY_BLOCKS_EACH * multiprocessors / g.columns;
    g.apply_blocks = at_most(parts_of((int64_t)written.n * written.h * written.w, each), most > 1 ? most : 1);
    return g;
}

// --- one launch -----------------------------------------------------------------------------------

// Clusters are faster than two launches if there are few of them and their threads keep few pixels
// (bench/results/2026-11-26-gpu-norms.md).
enum { CLUSTER_BLOCKS = 64, CLUSTER_PIXELS = 2 };
enum { GRID_LANES = 2 }; // a sector of memory; a block with few channels has few sums to read

static void set_kept(ls_cuda_norm_grid *g) {
    g->kept = parts_of(g->pixels, (int64_t)g->slices * (LS_CUDA_NORM_KEPT_THREADS / g->lanes));
}

static ls_cuda_norm_grid in_clusters(ls_cuda_norm_grid g, int cluster) {
    g.form = LS_CUDA_NORM_IN_CLUSTERS;
    g.lanes = g.slices = 1, g.columns = g.packs;
    while (g.slices < cluster && g.slices * LS_CUDA_NORM_KEPT_THREADS < g.pixels) g.slices *= 2;
    set_kept(&g);
    return g;
}

static ls_cuda_norm_grid in_one_grid(ls_cuda_norm_grid g, int multiprocessors) {
    g.form = LS_CUDA_NORM_IN_ONE_GRID;
    g.lanes = at_most(g.packs, GRID_LANES), g.columns = parts_of(g.packs, g.lanes);
    g.slices = multiprocessors / g.columns;
    set_kept(&g);
    g.slices = parts_of(g.pixels, (int64_t)g.kept * (LS_CUDA_NORM_KEPT_THREADS / g.lanes)); // no block without pixels
    return g;
}

// Returns the grid of a batch norm in one launch; kept == 0 if this is not possible or not worthwhile.
static ls_cuda_norm_grid in_one_launch(
    const ls_op_desc *desc, const ls_cuda_norm_gpu *gpu, const ls_cuda_norm_grid *shape) {
    const ls_norm_attr *a = &desc->attr.norm;
    const size_t size = ls_dtype_bytes(a->storage);
    const int tensors = desc->op == LS_OP_NORM_FORWARD ? 1 : a->two_grads ? 3 : 2;
    const size_t sums = 2 * PACK_BYTES / size * (LS_CUDA_NORM_KEPT_THREADS + 1) * sizeof(float);
    // shared memory of a block whose threads keep one pixel each
    const size_t pixel_bytes = (size_t)tensors * LS_CUDA_NORM_KEPT_THREADS * PACK_BYTES;
    const int most = (int)((gpu->shared_bytes - sums) / pixel_bytes);
    ls_cuda_norm_grid g = { 0 };
    if (gpu->alone && gpu->multiprocessors >= parts_of(shape->packs, GRID_LANES))
        g = in_one_grid(*shape, gpu->multiprocessors);
    if (!g.kept || g.kept > most) {
        g = in_clusters(*shape, gpu->cluster);
        if (g.kept > CLUSTER_PIXELS || g.kept > most || g.columns * g.slices > CLUSTER_BLOCKS) g.kept = 0;
    }
    g.kept_bytes = (size_t)g.kept * pixel_bytes;
    return g;
}

ls_cuda_norm_grid ls_cuda_norm_grid_of(const ls_op_desc *desc, const ls_cuda_norm_gpu *gpu) {
    ls_cuda_norm_grid g = two_launches(desc, gpu->multiprocessors);
    const int whole = desc->op == LS_OP_NORM_FORWARD || desc->op == LS_OP_NORM_BACKWARD;
    if (whole && !desc->attr.norm.pool_kernel) {
        const ls_cuda_norm_grid one = in_one_launch(desc, gpu, &g);
        if (one.kept) g = one;
    }
    g.places = parts_of(g.slices, 4) * 4;
    return g;
}
