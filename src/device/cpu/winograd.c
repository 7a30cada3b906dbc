// winograd.c - plans and runs Winograd convolution: transform the filters, then slab by slab of tiles transform,
// multiply at each position, transform back. kernels/winograd.h defines the matrices V, U, M, Z and A.
//
// Two ways to split the work, each with results that do not depend on the number of threads:
//   own slabs     a task is a slab from its input to its output. The filters pass through the cache once per slab.
//   shared slabs  for filters too large for that: all threads work on one larger slab, a task being some channels
//   (transforms)
//                 or a position and some panels (products).
// The weight gradient sums over tiles in order; with own slabs into `parts` partial sums that are then added in order.
#include "device/cpu/winograd.h"
#include <assert.h>
#include <string.h>
#include "device/cpu/kernels/winograd.h"

enum { LINE = 16 }; // floats in a cache line

static const struct {
    const char *algorithm;
    int tile, kernel, side; // m outputs and r taps a side, m + r - 1 positions a side
} variants[LS_WINOGRAD_VARIANTS] = {
    [LS_WINOGRAD_F43] = { "winograd f(4,3)", 4, 3, 6 },
    [LS_WINOGRAD_F25] = { "winograd f(2,5)", 2, 5, 6 },
    [LS_WINOGRAD_F23] = { "winograd f(2,3)", 2, 3, 4 },
};

extern const ls_winograd_kernels ls_winograd_v8, ls_winograd_v16, ls_winograd_v16e;

const ls_winograd_kernels *ls_winograd_kernels_for(int vector_width, int emulated) {
    assert(vector_width == 8 || vector_width == 16);
    if (vector_width == 8) return &ls_winograd_v8;
    return emulated ? &ls_winograd_v16e : &ls_winograd_v16;
}

static int divide_up(int value, int by) {
    return (value + by - 1) / by;
}

static int round_up(int value, int to) {
    return divide_up(value, to) * to;
}

static int smaller(int a, int b) {
    return a < b ? a : b;
}

static int larger(int a, int b) {
    return a > b ? a : b;
}

// Strides of an odd number of cache lines: the positions of a tile then fall into different sets of the cache.
static size_t odd_lines(size_t floats) {
    return (((floats + LINE - 1) / LINE) | 1) * LINE;
}

// The variant of a mode for a kernel size; -1: none.
static int find_variant(int kernel, const char *mode) {
    if (strcmp(mode, "auto") == 0 && kernel == 3) return LS_WINOGRAD_F43;
    if (strcmp(mode, "auto") == 0 && kernel == 5) return LS_WINOGRAD_F25;
    if (strcmp(mode, "f2") == 0 && kernel == 3) return LS_WINOGRAD_F23;
    return -1;
}

int ls_winograd_supports(const ls_conv_attr *attr, ls_op op, const char *mode, int vector_width) {
    if (op != LS_OP_CONV_FORWARD && op != LS_OP_CONV_BACKWARD_DATA && op != LS_OP_CONV_BACKWARD_WEIGHT) return 0;
    if (attr->storage != LS_F32 || attr->stride != 1 || attr->dilation != 1 || attr->groups != 1) return 0;
    const int variant = find_variant(attr->kernel, mode);
    if (variant < 0 || attr->pad >= attr->kernel) return 0;
    const int in = attr->src.c, out = attr->dst.c;
    if (in < vector_width || out < vector_width) return 0;
    // Multiplications of direct convolution over ours. At 2 and above every measured layer gained (f2: at 1.5).
    const int tile = variants[variant].tile, side = variants[variant].side;
    const double direct = (double)attr->kernel * attr->kernel * attr->dst.h * attr->dst.w * in * out;
    const double own = (double)side * side * divide_up(attr->dst.h, tile) * divide_up(attr->dst.w, tile) *
                       round_up(in, vector_width) * round_up(out, vector_width);
    return direct >= own * (variant == LS_WINOGRAD_F23 ? 1.5 : 2.0);
}

// The maps: forward reads src and writes dst; backward data reads grad_dst, as if padded by kernel-1-pad, and writes
// grad_src; backward weight reads src and grad_dst.
static void set_maps(ls_winograd_plan *plan, const ls_conv_attr *attr) {
    const int tile = variants[plan->variant].tile, width = plan->kernels->width;
    const ls_nchw *in = &attr->src, *out = &attr->dst;
    int pad = attr->pad;
    if (plan->op == LS_OP_CONV_BACKWARD_DATA) {
        in = &attr->dst, out = &attr->src;
        pad = attr->kernel - 1 - attr->pad;
    }
    const int tiles_y = divide_up(out->h, tile), tiles_x = divide_up(out->w, tile);
    plan->in = (ls_winograd_map){ divide_up(in->c, width), in->h, in->w, tiles_y, tiles_x, tile, pad };
    plan->out = (ls_winograd_map){ divide_up(out->c, width), out->h, out->w, tiles_y, tiles_x, tile, 0 };
    plan->n = in->n;
    plan->tiles = in->n * tiles_y * tiles_x;
}

// Own slabs of about 48 tiles, as many for each thread; a result does not depend on its slab.
static int choose_product_slab(const ls_winograd_plan *plan, int threads) {
    enum { OWN_TILES = 66, SHARED_TILES = 258 };
    const int slabs =
        plan->shared ? divide_up(plan->tiles, SHARED_TILES) : divide_up(plan->tiles, OWN_TILES * threads) * threads;
    return round_up(divide_up(plan->tiles, slabs), plan->kernels->product_tiles);
}

static void plan_product(ls_winograd_plan *plan, size_t matrix_bytes, int threads) {
    enum { OWN_MATRIX_BYTES = 8 << 20 };
    plan->shared = matrix_bytes > OWN_MATRIX_BYTES;
    plan->slab_tiles = choose_product_slab(plan, threads);
    plan->parts = 1;
}

static void plan_sum(ls_winograd_plan *plan, size_t matrix_bytes) {
    enum { OWN_MATRIX_BYTES = 640 << 10, PARTS_BYTES = 8 << 20, PART_TILES = 96, PARTS = 64, SLAB_TILES = 192 };
    plan->parts = larger(1, smaller(PARTS, plan->tiles / PART_TILES));
    while (plan->parts > 1 && (size_t)plan->parts * matrix_bytes > PARTS_BYTES) plan->parts--;
    plan->shared = matrix_bytes > OWN_MATRIX_BYTES;
    if (plan->shared) plan->parts = 1;
    plan->slab_tiles = smaller(SLAB_TILES, round_up(plan->tiles, LS_WINOGRAD_SUM_TILES));
}

void ls_winograd_plan_make(ls_winograd_plan *plan, const ls_conv_attr *attr, ls_op op, const char *mode,
    const ls_winograd_kernels *kernels, int threads) {
    const int variant = find_variant(attr->kernel, mode);
    assert(variant >= 0 && attr->stride == 1 && attr->dilation == 1 && attr->groups == 1 && attr->pad < attr->kernel);
    *plan = (ls_winograd_plan){ .kernels = kernels, .op = op, .variant = variant };
    plan->algorithm = variants[variant].algorithm;
    plan->side = variants[variant].side;
    set_maps(plan, attr);

    const size_t width = (size_t)kernels->width, positions = (size_t)(plan->side * plan->side);
    const size_t matrix = (size_t)plan->in.blocks * width * (size_t)plan->out.blocks * width;
    if (op == LS_OP_CONV_BACKWARD_WEIGHT)
        plan_sum(plan, positions * matrix * sizeof(float));
    else
        plan_product(plan, positions * matrix * sizeof(float), threads);
    plan->in_block = plan->out_block = odd_lines((size_t)plan->slab_tiles * width);
    plan->in_pos = odd_lines((size_t)plan->in.blocks * plan->in_block);
    plan->out_pos = odd_lines((size_t)plan->out.blocks * plan->out_block);
    plan->matrix_pos = odd_lines(matrix);
    plan->matrix_part = positions * plan->matrix_pos;
    plan->slabs_at = (size_t)plan->parts * plan->matrix_part;
    plan->slab_floats = positions * (plan->in_pos + plan->out_pos);
    const size_t slabs = plan->shared ? 1 : (size_t)threads;
    plan->workspace_bytes = (plan->slabs_at + slabs * plan->slab_floats) * sizeof(float);
}

// ---- Run: what a task knows

typedef struct {
    const ls_winograd_plan *plan;
    const float *in, *weight, *bias; // in: the map that becomes V
    float *out;                      // the map that is written; grad_dst in backward weight
    float *grad_weight, *grad_bias;
    float *matrix, *slabs; // of the workspace
    int first, tiles;      // the shared slab
} job;

enum { PANELS_PER_TASK = 8 };

static void filter_task(void *context, int panel, int thread) {
    const job *j = context;
    const ls_winograd_plan *plan = j->plan;
    (void)thread;
    const int backward = plan->op == LS_OP_CONV_BACKWARD_DATA;
    plan->kernels->filters_in(plan->variant, backward, j->weight, backward ? plan->out.blocks : plan->in.blocks,
        backward ? plan->in.blocks : plan->out.blocks, panel, j->matrix, plan->matrix_pos);
}

static void tiles_in(const job *j, int block, int first, int tiles, int pad_to, float *slab) {
    const ls_winograd_plan *plan = j->plan;
    plan->kernels->tiles_in(plan->variant, &plan->in, j->in, block, first, tiles, round_up(tiles, pad_to),
        slab + (size_t)block * plan->in_block, plan->in_pos);
}

static void gradients_in(const job *j, int block, int first, int tiles, float *slab) {
    const ls_winograd_plan *plan = j->plan;
    float *z = slab + (size_t)(plan->side * plan->side) * plan->in_pos;
    plan->kernels->gradients_in(plan->variant, &plan->out, j->out, block, first, tiles,
        round_up(tiles, LS_WINOGRAD_SUM_TILES), z + (size_t)block * plan->out_block, plan->out_pos);
}

static void tiles_out(const job *j, int block, int first, int tiles, const float *slab) {
    const ls_winograd_plan *plan = j->plan;
    const float *m = slab + (size_t)(plan->side * plan->side) * plan->in_pos;
    plan->kernels->tiles_out(plan->variant, &plan->out, j->out, block, first, tiles,
        m + (size_t)block * plan->out_block, plan->out_pos, j->bias ? j->bias + block * plan->kernels->width : NULL);
}

// M = V * U at one position for `blocks` output blocks from `block` on (at the beginning of a panel).
static void multiply(const job *j, int position, int block, int blocks, int tiles, float *slab) {
    const ls_winograd_plan *plan = j->plan;
    const size_t p = (size_t)position, width = (size_t)plan->kernels->width;
    float *m = slab + (size_t)(plan->side * plan->side) * plan->in_pos;
    const float *u = j->matrix + p * plan->matrix_pos + (size_t)block * width * (size_t)plan->in.blocks * width;
    plan->kernels->product(slab + p * plan->in_pos, plan->in_block, plan->in.blocks, u, blocks,
        m + p * plan->out_pos + (size_t)block * plan->out_block, plan->out_block,
        round_up(tiles, plan->kernels->product_tiles));
}

// A (+)= V^T * Z, likewise; sums: the partial sum that is meant.
static void add_up(const job *j, int position, int block, int blocks, int tiles, int add, float *slab, float *sums) {
    const ls_winograd_plan *plan = j->plan;
    const size_t p = (size_t)position, width = (size_t)plan->kernels->width;
    const float *z = slab + (size_t)(plan->side * plan->side) * plan->in_pos;
    float *a = sums + p * plan->matrix_pos + (size_t)block * width * (size_t)plan->in.blocks * width;
    plan->kernels->sum(slab + p * plan->in_pos, plan->in_block, plan->in.blocks,
        z + p * plan->out_pos + (size_t)block * plan->out_block, plan->out_block, blocks, add, a,
        round_up(tiles, LS_WINOGRAD_SUM_TILES));
}

// ---- Own slabs

static void own_product_task(void *context, int task, int thread) {
    const job *j = context;
    const ls_winograd_plan *plan = j->plan;
    float *slab = j->slabs + (size_t)thread * plan->slab_floats;
    const int first = task * plan->slab_tiles, tiles = smaller(plan->slab_tiles, plan->tiles - first);
    for (int b = 0; b < plan->in.blocks; b++) tiles_in(j, b, first, tiles, plan->kernels->product_tiles, slab);
    for (int p = 0; p < plan->side * plan->side; p++) multiply(j, p, 0, plan->out.blocks, tiles, slab);
    for (int b = 0; b < plan->out.blocks; b++) tiles_out(j, b, first, tiles, slab);
}

static void own_sum_task(void *context, int part, int thread) {
    const job *j = context;
    const ls_winograd_plan *plan = j->plan;
    float *slab = j->slabs + (size_t)thread * plan->slab_floats, *sums = j->matrix + (size_t)part * plan->matrix_part;
    const int begin = (int)((int64_t)plan->tiles * part / plan->parts);
    const int end = (int)((int64_t)plan->tiles * (part + 1) / plan->parts);
    for (int first = begin; first < end; first += plan->slab_tiles) {
        const int tiles = smaller(plan->slab_tiles, end - first);
        for (int b = 0; b < plan->in.blocks; b++) tiles_in(j, b, first, tiles, LS_WINOGRAD_SUM_TILES, slab);
        for (int b = 0; b < plan->out.blocks; b++) gradients_in(j, b, first, tiles, slab);
        for (int p = 0; p < plan->side * plan->side; p++)
            add_up(j, p, 0, plan->out.blocks, tiles, first > begin, slab, sums);
    }
}

// ---- Shared slabs

static void shared_in_task(void *context, int task, int thread) {
    const job *j = context;
    (void)thread;
    const int sums = j->plan->op == LS_OP_CONV_BACKWARD_WEIGHT;
    if (task < j->plan->in.blocks)
        tiles_in(j, task, j->first, j->tiles, sums ? LS_WINOGRAD_SUM_TILES : j->plan->kernels->product_tiles, j->slabs);
    else
        gradients_in(j, task - j->plan->in.blocks, j->first, j->tiles, j->slabs);
}

static void shared_product_task(void *context, int task, int thread) {
    const job *j = context;
    (void)thread;
    const int blocks = PANELS_PER_TASK * LS_WINOGRAD_PANEL, groups = divide_up(j->plan->out.blocks, blocks);
    const int block = task % groups * blocks;
    multiply(j, task / groups, block, smaller(blocks, j->plan->out.blocks - block), j->tiles, j->slabs);
}

static void shared_sum_task(void *context, int task, int thread) {
    const job *j = context;
    (void)thread;
    const int blocks = PANELS_PER_TASK * LS_WINOGRAD_SUM_PANEL, groups = divide_up(j->plan->out.blocks, blocks);
    const int block = task % groups * blocks;
    add_up(j, task / groups, block, smaller(blocks, j->plan->out.blocks - block), j->tiles, j->first > 0, j->slabs,
        j->matrix);
}

static void shared_out_task(void *context, int block, int thread) {
    const job *j = context;
    (void)thread;
    tiles_out(j, block, j->first, j->tiles, j->slabs);
}

// ---- Operators

static void run_product(job *j, ls_pool *pool) {
    const ls_winograd_plan *plan = j->plan;
    const int out_blocks = plan->out.blocks, positions = plan->side * plan->side;
    ls_pool_run(pool, filter_task, j, divide_up(out_blocks, LS_WINOGRAD_PANEL));
    if (!plan->shared) {
        ls_pool_run(pool, own_product_task, j, divide_up(plan->tiles, plan->slab_tiles));
        return;
    }
    for (j->first = 0; j->first < plan->tiles; j->first += plan->slab_tiles) {
        j->tiles = smaller(plan->slab_tiles, plan->tiles - j->first);
        ls_pool_run(pool, shared_in_task, j, plan->in.blocks);
        ls_pool_run(
            pool, shared_product_task, j, positions * divide_up(out_blocks, PANELS_PER_TASK * LS_WINOGRAD_PANEL));
        ls_pool_run(pool, shared_out_task, j, out_blocks);
    }
}

static void weight_task(void *context, int block, int thread) {
    const job *j = context;
    const ls_winograd_plan *plan = j->plan;
    (void)thread;
    plan->kernels->filters_out(plan->variant, j->matrix, plan->matrix_pos, plan->parts, plan->matrix_part,
        plan->in.blocks, plan->out.blocks, block, j->grad_weight);
    if (j->grad_bias)
        plan->kernels->bias_out(j->out, plan->n, plan->out.blocks, (size_t)plan->out.h * (size_t)plan->out.w, block,
            j->grad_bias + block * plan->kernels->width);
}

static void run_sum(job *j, ls_pool *pool) {
    const ls_winograd_plan *plan = j->plan;
    const int out_blocks = plan->out.blocks, positions = plan->side * plan->side;
    if (!plan->shared) {
        ls_pool_run(pool, own_sum_task, j, plan->parts);
    } else {
        for (j->first = 0; j->first < plan->tiles; j->first += plan->slab_tiles) {
            j->tiles = smaller(plan->slab_tiles, plan->tiles - j->first);
            ls_pool_run(pool, shared_in_task, j, plan->in.blocks + out_blocks);
            ls_pool_run(
                pool, shared_sum_task, j, positions * divide_up(out_blocks, PANELS_PER_TASK * LS_WINOGRAD_SUM_PANEL));
        }
    }
    ls_pool_run(pool, weight_task, j, out_blocks);
}

void ls_winograd_run(const ls_winograd_plan *plan, float *const *args, float *workspace, ls_pool *pool) {
    job j = { .plan = plan, .matrix = workspace, .slabs = workspace + plan->slabs_at };
    if (plan->op == LS_OP_CONV_FORWARD) {
        j.in = args[LS_CONV_FORWARD_SRC], j.out = args[LS_CONV_FORWARD_DST];
        j.weight = args[LS_CONV_FORWARD_WEIGHT], j.bias = args[LS_CONV_FORWARD_BIAS];
        run_product(&j, pool);
    } else if (plan->op == LS_OP_CONV_BACKWARD_DATA) {
        j.in = args[LS_CONV_BACKWARD_DATA_GRAD_DST], j.out = args[LS_CONV_BACKWARD_DATA_GRAD_SRC];
        j.weight = args[LS_CONV_BACKWARD_DATA_WEIGHT];
        run_product(&j, pool);
    } else {
        j.in = args[LS_CONV_BACKWARD_WEIGHT_SRC], j.out = args[LS_CONV_BACKWARD_WEIGHT_GRAD_DST];
        j.grad_weight = args[LS_CONV_BACKWARD_WEIGHT_GRAD_WEIGHT],
        j.grad_bias = args[LS_CONV_BACKWARD_WEIGHT_GRAD_BIAS];
        run_sum(&j, pool);
    }
}
