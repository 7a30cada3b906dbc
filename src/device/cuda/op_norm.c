// op_norm.c - batch norm: two launches forward (statistics, apply), one for inference, two backward (sums, apply);
// over several ranks, one for each of the sums and two (finish, apply) for what follows them.
#include "device/cuda/cuda.h"
#include "device/cuda/kernels/norm.h"

typedef struct {
    ls_cuda_plan base;
    ls_cuda_norm_grid grid;
    ls_slab *done; // a counter for each column of the grid; NULL where nothing is summed
} norm_plan;

static ls_cuda_norm_args args_of(const ls_plan *plan, ls_buffer workspace) {
    const norm_plan *own = (const norm_plan *)plan;
    ls_cuda_norm_args k = { .attr = plan->desc.attr.norm, .grid = own->grid };
    if (own->done) {
        k.sums = ls_cuda_at(workspace);
        k.factors = k.sums + (size_t)own->grid.slices * 2 * (size_t)own->grid.channels;
        k.done = (unsigned *)own->done->address;
    } else {
        k.factors = ls_cuda_at(workspace);
    }
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
    if (k.attr.pool_kernel) {
        k.index = ls_cuda_at(args[LS_NORM_BACKWARD_INDEX]);
    } else if (k.attr.activation == LS_ACTIVATION_RELU) {
        k.dst = ls_cuda_at(args[LS_NORM_BACKWARD_DST]);
    }
    k.grad_dst = ls_cuda_at(args[LS_NORM_BACKWARD_GRAD_DST]);
    if (k.attr.two_grads) k.grad_dst2 = ls_cuda_at(args[LS_NORM_BACKWARD_GRAD_DST2]);
    k.gamma = ls_cuda_at(args[LS_NORM_BACKWARD_GAMMA]);
    if (k.attr.activation == LS_ACTIVATION_GELU) k.beta = ls_cuda_at(args[LS_NORM_BACKWARD_BETA]);
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

// The operators, and what each takes: does it sum over pixels, does it need factors,
// does it write a map that may be pooled?
typedef struct {
    ls_cuda_run *run;
    const char *algorithm;
    int sums, factors, pools;
} norm_kind;

static norm_kind kind_of(ls_op op) {
    switch (op) {
    case LS_OP_NORM_FORWARD:
        return (norm_kind){ run_forward, "own, 2 passes", 1, 0, 1 };
    case LS_OP_NORM_INFERENCE:
        return (norm_kind){ run_inference, "own", 0, 0, 1 };
    case LS_OP_NORM_SUMS:
        return (norm_kind){ run_sums, "own", 1, 0, 0 };
    case LS_OP_NORM_APPLY:
        return (norm_kind){ run_apply, "own", 0, 0, 1 };
    case LS_OP_NORM_BACKWARD_SUMS:
        return (norm_kind){ run_backward_sums, "own", 1, 0, 0 };
    case LS_OP_NORM_BACKWARD_APPLY:
        return (norm_kind){ run_backward_apply, "own", 0, 1, 0 };
    default:
        return (norm_kind){ run_backward, "own, 2 passes", 1, 1, 0 };
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
    int slices = at_most(((int64_t)g.pixels + rows * SUM_PIXELS - 1) / (rows * SUM_PIXELS), most > 1 ? most : 1);
    g.slice_pixels = (g.pixels + slices - 1) / slices;
    g.slices = (g.pixels + g.slice_pixels - 1) / g.slice_pixels;
    ls_nchw written = a->pool_kernel && pools ? a->pooled : a->shape;
    int each = LS_CUDA_NORM_APPLY_THREADS / g.lanes * (a->pool_kernel && pools ? 1 : APPLY_PIXELS);
    int64_t blocks = ((int64_t)written.n * written.h * written.w + each - 1) / each;
    most = APPLY_BLOCKS_EACH * multiprocessors / g.columns;
    g.apply_blocks = at_most(blocks, most > 1 ? most : 1);
    return g;
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
    LS_TRY(ls_cuda_plan_make(device, desc, sizeof *plan, kind.run, kind.algorithm, &plan));
    plan->grid = grid_of(a, kind.pools, device->multiprocessors);
    plan->base.free_parts = free_counters;
    *out = &plan->base.base;
    size_t rows = (kind.sums ? (size_t)plan->grid.slices * 2 : 0) + (kind.factors ? 3 : 0);
    plan->base.base.workspace_bytes = rows * (size_t)plan->grid.channels * sizeof(float);
    if (!kind.sums) return LS_SUCCESS;
    ls_status status = ls_cuda_slab_new(&device->base, LS_MEMORY_DEVICE, (size_t)plan->grid.columns * sizeof(unsigned),
        "a batch norm's counters", &plan->done);
    if (ls_failed(status)) ls_cuda_plan_free(&plan->base.base);
    return status;
}
