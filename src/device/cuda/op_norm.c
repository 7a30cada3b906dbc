// op_norm.c - batch norm: where shared memory holds what it reads, one launch forward and one backward; else two forward
// (statistics, apply), two backward (sums, apply); one for inference. Over several ranks, one for each of the sums and two
// (finish, apply) for what follows them.
#include "device/cuda/cuda.h"
#include "device/cuda/kernels/norm.h"

typedef struct {
    ls_cuda_plan base;
    ls_cuda_norm_grid grid;
    int sums;      // the workspace has room for each slice's sums
    ls_slab *done; // a counter for each column of the grid; NULL where no block waits for others' sums
} norm_plan;

static ls_cuda_norm_args args_of(const ls_plan *plan, ls_buffer workspace) {
    const norm_plan *own = (const norm_plan *)plan;
    ls_cuda_norm_args k = { .attr = plan->desc.attr.norm, .grid = own->grid };
    k.factors = ls_cuda_at(workspace);
    if (own->sums) {
        k.sums = k.factors;
        k.factors += (size_t)own->grid.slices * 2 * (size_t)own->grid.channels;
    }
    if (own->done) k.done = (unsigned *)own->done->address;
    return k;
}

static ls_cuda_norm_args forward_args(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace) {
    ls_cuda_norm_args k = args_of(plan, workspace);
    k.src = ls_cuda_at(args[LS_NORM_FORWARD_SRC]);
    if (k.attr.residual) k.residual = ls_cuda_at(args[LS_NORM_FORWARD_RESIDUAL]);
    k.gamma = ls_cuda_at(args[LS_NORM_FORWARD_GAMMA]);
    k.beta = ls_cuda_at(args[LS_NORM_FORWARD_BETA]);
    k.saved = ls_cuda_at(args[LS_NORM_FORWARD_SAVED]);
    k.sum_mean = ls_cuda_at(args[LS_NORM_FORWARD_SUM_MEAN]);
    k.sum_var = ls_cuda_at(args[LS_NORM_FORWARD_SUM_VAR]);
    k.out = ls_cuda_at(args[LS_NORM_FORWARD_DST]);
    if (k.attr.pool_kernel) k.index = ls_cuda_at(args[LS_NORM_FORWARD_INDEX]);
    return k;
}

static void run_forward(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    ls_cuda_norm_args k = forward_args(plan, args, workspace);
    ls_cuda_norm_statistics(&k, queue->stream);
    ls_cuda_norm_apply(&k, queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static void run_forward_kept(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    ls_cuda_norm_args k = forward_args(plan, args, workspace);
    ls_cuda_norm_forward_kept(&k, queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static void run_sums(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    ls_cuda_norm_args k = args_of(plan, workspace);
    k.src = ls_cuda_at(args[LS_NORM_SUMS_SRC]);
    k.whole = ls_cuda_at(args[LS_NORM_SUMS_SUMS]);
    ls_cuda_norm_statistics(&k, queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static void run_apply(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    ls_cuda_norm_args k = forward_args(plan, args, workspace);
    k.whole = ls_cuda_at(args[LS_NORM_APPLY_SUMS]);
    ls_cuda_norm_finish(&k, queue->stream);
    ls_cuda_norm_apply(&k, queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static void run_inference(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    ls_cuda_norm_args k = args_of(plan, workspace);
    k.src = ls_cuda_at(args[LS_NORM_INFERENCE_SRC]);
    if (k.attr.residual) k.residual = ls_cuda_at(args[LS_NORM_INFERENCE_RESIDUAL]);
    k.gamma = ls_cuda_at(args[LS_NORM_INFERENCE_GAMMA]);
    k.beta = ls_cuda_at(args[LS_NORM_INFERENCE_BETA]);
    k.mean = ls_cuda_at(args[LS_NORM_INFERENCE_MEAN]);
    k.var = ls_cuda_at(args[LS_NORM_INFERENCE_VAR]);
    k.out = ls_cuda_at(args[LS_NORM_INFERENCE_DST]);
    ls_cuda_norm_apply(&k, queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static ls_cuda_norm_args backward_args(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace) {
    ls_cuda_norm_args k = args_of(plan, workspace);
    k.src = ls_cuda_at(args[LS_NORM_BACKWARD_SRC]);
    k.beta = ls_cuda_at(args[LS_NORM_BACKWARD_BETA]);
    if (k.attr.pool_kernel) {
        k.index = ls_cuda_at(args[LS_NORM_BACKWARD_INDEX]);
    } else if (k.attr.activation == LS_ACTIVATION_RELU && !k.beta) {
        k.dst = ls_cuda_at(args[LS_NORM_BACKWARD_DST]); // with beta y follows from src
    }
    k.grad_dst = ls_cuda_at(args[LS_NORM_BACKWARD_GRAD_DST]);
    if (k.attr.two_grads) k.grad_dst2 = ls_cuda_at(args[LS_NORM_BACKWARD_GRAD_DST2]);
    k.gamma = ls_cuda_at(args[LS_NORM_BACKWARD_GAMMA]);
    k.saved = ls_cuda_at(args[LS_NORM_BACKWARD_SAVED]);
    k.out = ls_cuda_at(args[LS_NORM_BACKWARD_GRAD_SRC]);
    if (k.attr.residual) k.grad_residual = ls_cuda_at(args[LS_NORM_BACKWARD_GRAD_RESIDUAL]);
    k.grad_gamma = ls_cuda_at(args[LS_NORM_BACKWARD_GRAD_GAMMA]);
    k.grad_beta = ls_cuda_at(args[LS_NORM_BACKWARD_GRAD_BETA]);
    return k;
}

static void run_backward(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    ls_cuda_norm_args k = backward_args(plan, args, workspace);
    ls_cuda_norm_backward_sums(&k, queue->stream);
    ls_cuda_norm_backward_apply(&k, queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static void run_backward_kept(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    ls_cuda_norm_args k = backward_args(plan, args, workspace);
    ls_cuda_norm_backward_kept(&k, queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static void run_backward_sums(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    ls_cuda_norm_args k = backward_args(plan, args, workspace);
    k.whole = ls_cuda_at(args[LS_NORM_BACKWARD_SUMS_SUMS]);
    ls_cuda_norm_backward_sums(&k, queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static void run_backward_apply(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    ls_cuda_norm_args k = backward_args(plan, args, workspace);
    k.whole = ls_cuda_at(args[LS_NORM_BACKWARD_APPLY_SUMS]);
    ls_cuda_norm_backward_finish(&k, queue->stream);
    ls_cuda_norm_backward_apply(&k, queue->stream);
    ls_cuda_enqueued(plan, queue);
}

// The operators, and what each takes: does it sum over pixels, does it need factors, does it write a map that may be pooled?
// kept: in one launch, where there is one.
typedef struct {
    ls_cuda_run *run, *kept;
    int sums, factors, pools;
} norm_kind;

static norm_kind kind_of(ls_op op) {
    switch (op) {
    case LS_OP_NORM_FORWARD:
        return (norm_kind){ run_forward, run_forward_kept, 1, 0, 1 };
    case LS_OP_NORM_INFERENCE:
        return (norm_kind){ run_inference, NULL, 0, 0, 1 };
    case LS_OP_NORM_SUMS:
        return (norm_kind){ run_sums, NULL, 1, 0, 0 };
    case LS_OP_NORM_APPLY:
        return (norm_kind){ run_apply, NULL, 0, 0, 1 };
    case LS_OP_NORM_BACKWARD_SUMS:
        return (norm_kind){ run_backward_sums, NULL, 1, 0, 0 };
    case LS_OP_NORM_BACKWARD_APPLY:
        return (norm_kind){ run_backward_apply, NULL, 0, 1, 0 };
    default:
        return (norm_kind){ run_backward, run_backward_kept, 1, 1, 0 };
    }
}

static int at_most(int64_t value, int limit) {
    return value < limit ? (int)value : limit;
}

// Blocks that add up: two for each multiprocessor of an H100, and no fewer than SUM_PIXELS pixels to a thread, as the
// last block reads what every other one has written. On another GPU the number is the same, and so are the bits.
enum { SUM_BLOCKS = 264, SUM_PIXELS = 4, APPLY_BLOCKS_EACH = 8, APPLY_PIXELS = 4 };

static ls_cuda_norm_grid grid_of(const ls_norm_attr *a, int pools, int multiprocessors) {
    ls_cuda_norm_grid g = { .channels = ls_cuda_channels(a->shape.c), .lanes = 1 };
    g.packs = g.channels / ls_cuda_pack(a->storage);
    while (g.lanes < g.packs && g.lanes < LS_CUDA_NORM_LANES_MAX) g.lanes *= 2;
    g.columns = (g.packs + g.lanes - 1) / g.lanes;
    g.pixels = a->shape.n * a->shape.h * a->shape.w;
    int rows = LS_CUDA_NORM_SUM_THREADS / g.lanes, most = SUM_BLOCKS / g.columns;
    g.slices = at_most(((int64_t)g.pixels + rows * SUM_PIXELS - 1) / (rows * SUM_PIXELS), most > 1 ? most : 1);
    ls_nchw written = a->pool_kernel && pools ? a->pooled : a->shape;
    int each = LS_CUDA_NORM_APPLY_THREADS / g.lanes * (a->pool_kernel && pools ? 1 : APPLY_PIXELS);
    int64_t blocks = ((int64_t)written.n * written.h * written.w + each - 1) / each;
    most = APPLY_BLOCKS_EACH * multiprocessors / g.columns;
    g.apply_blocks = at_most(blocks, most > 1 ? most : 1);
    return g;
}

// The rule for one launch: where the shared memory of a cluster of blocks holds src of `lanes` packs of channels of all pixels,
// backward beside src each gradient. On an H100 or H200 (227 KiB a block, 8 blocks a cluster) a channel of 16 bits may have 98304
// pixels forward, 49152 backward, 32768 with two gradients; without clusters (before compute capability 9.0) an eighth of what the
// block's memory holds. What is larger takes two launches: then more multiprocessors than one cluster has are needed, and
// blocks that are not of one cluster cannot wait for each other while another queue's kernels (sums over ranks) hold a part
// of the GPU. So does pooling, where a thread needs its neighbours' pixels.
enum { KEPT_BLOCKS = 128 }; // a wave of clusters of 8 on an H100 or H200

static int kept_pixels(const ls_cuda_norm_grid *g) { // of a thread
    int64_t at_a_time = (int64_t)g->slices * (LS_CUDA_NORM_KEPT_THREADS / g->lanes);
    return (int)((g->pixels + at_a_time - 1) / at_a_time);
}

// Makes of the grid that of one launch; 0: it takes two.
static int kept_grid(const ls_op_desc *desc, int capability, ls_cuda_norm_grid *grid) {
    const ls_norm_attr *a = &desc->attr.norm;
    int tensors = desc->op == LS_OP_NORM_FORWARD ? 1 : a->two_grads ? 3 : 2;
    int cluster = capability >= 90 ? LS_CUDA_NORM_CLUSTER_MAX : 1;
    size_t sums = (size_t)2 * 16 / ls_dtype_bytes(a->storage) * (LS_CUDA_NORM_KEPT_THREADS + 1) * sizeof(float);
    size_t pixel_bytes = (size_t)tensors * LS_CUDA_NORM_KEPT_THREADS * 16; // of one of each thread's
    int most = (int)((ls_cuda_shared_bytes(capability) - sums) / pixel_bytes);
    ls_cuda_norm_grid g = *grid;
    if (a->pool_kernel) return 0;
    g.lanes = g.slices = 1, g.columns = g.packs;
    while (g.slices < cluster && g.slices * LS_CUDA_NORM_KEPT_THREADS < g.pixels) g.slices *= 2;
    if (kept_pixels(&g) > most) return 0;
    // More of a pixel to each block: whole sectors of memory, as long as enough blocks are left, or threads have no pixel.
    for (ls_cuda_norm_grid wide = g; wide.lanes < LS_CUDA_NORM_LANES_MAX && wide.lanes < g.packs; g = wide) {
        wide.lanes *= 2;
        wide.columns = (g.packs + wide.lanes - 1) / wide.lanes;
        if (kept_pixels(&wide) > (wide.columns * wide.slices >= KEPT_BLOCKS ? most : 1)) break;
    }
    g.kept = kept_pixels(&g);
    g.kept_bytes = (size_t)g.kept * pixel_bytes;
    *grid = g;
    return 1;
}

static void free_counters(ls_plan *plan) {
    ls_cuda_slab_free(((norm_plan *)plan)->done);
}

ls_status ls_cuda_norm_plan(ls_cuda_device *device, const ls_op_desc *desc, ls_plan **out) {
    const ls_norm_attr *a = &desc->attr.norm;
    norm_plan *plan;
    LS_TRY(ls_cuda_check_packs(desc, a->shape, a->storage));
    if (a->pool_kernel) LS_TRY(ls_cuda_check_packs(desc, a->pooled, a->storage));
    norm_kind kind = kind_of(desc->op);
    ls_cuda_norm_grid grid = grid_of(a, kind.pools, device->multiprocessors);
    int kept = kind.kept && kept_grid(desc, device->capability, &grid);
    const char *algorithm = kept ? "own, 1 pass" : kind.kept ? "own, 2 passes" : "own";
    LS_TRY(ls_cuda_plan_make(device, desc, sizeof *plan, kept ? kind.kept : kind.run, algorithm, &plan));
    plan->grid = grid;
    plan->sums = kind.sums;
    plan->base.free_parts = free_counters;
    *out = &plan->base.base;
    size_t rows = (kind.sums ? (size_t)grid.slices * 2 : 0) + (kind.factors && !kept ? 3 : 0);
    plan->base.base.workspace_bytes = rows * (size_t)grid.channels * sizeof(float);
    if (!kind.sums || kept) return LS_SUCCESS;
    ls_status status = ls_cuda_slab_new(&device->base, LS_MEMORY_DEVICE, (size_t)grid.columns * sizeof(unsigned),
        "a batch norm's counters", &plan->done);
    if (ls_failed(status)) ls_cuda_plan_free(&plan->base.base);
    return status;
}
