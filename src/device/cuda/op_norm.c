// op_norm.c - batch norm. Where device/gpu/norm_rule.h decides to keep the input in shared memory, one launch forward
// and one backward. Otherwise two launches forward (statistics, apply) and two backward (sums, apply). Inference has
// one launch. Over several ranks, each of the sums has one launch, and the operator after it has two (finish, apply).
#include "device/cuda/cuda.h"
#include "device/cuda/kernels/norm.h"
#include "device/gpu/norm_rule.h"

typedef struct {
    ls_cuda_plan base;
    ls_cuda_norm_grid grid;
    int sums;      // 1: the workspace contains the sums of each slice
    ls_slab *done; // a counter of finished blocks for each column of the grid; NULL: not needed
} norm_plan;

static ls_cuda_norm_args args_of(const ls_plan *plan, ls_buffer workspace) {
    const norm_plan *own = (const norm_plan *)plan;
    ls_cuda_norm_args k = { .attr = plan->desc.attr.norm, .grid = own->grid };
    k.factors = ls_cuda_at(workspace);
    if (own->sums) {
        k.sums = k.factors;
        k.factors += (size_t)own->grid.places * 2 * (size_t)own->grid.channels;
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
        k.dst = ls_cuda_at(args[LS_NORM_BACKWARD_DST]); // with beta, y is computed again from src
    }
    k.grad_dst = ls_cuda_at(args[LS_NORM_BACKWARD_GRAD_DST]);
    if (k.attr.two_grads) k.grad_dst2 = ls_cuda_at(args[LS_NORM_BACKWARD_GRAD_DST2]);
    k.gamma = ls_cuda_at(args[LS_NORM_BACKWARD_GAMMA]);
    k.saved = ls_cuda_at(args[LS_NORM_BACKWARD_SAVED]);
    k.mean = ls_cuda_at(args[LS_NORM_BACKWARD_MEAN]); // NULL without stored statistics
    k.var = ls_cuda_at(args[LS_NORM_BACKWARD_VAR]);
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

// The functions and needs of an operator. sums: it sums over pixels. factors: it needs room for the factors of the
// backward pass. kept: the function for one launch, or NULL.
typedef struct {
    ls_cuda_run *run, *kept;
    int sums, factors;
} norm_kind;

static norm_kind kind_of(ls_op op) {
    switch (op) {
    case LS_OP_NORM_FORWARD:
        return (norm_kind){ run_forward, run_forward_kept, 1, 0 };
    case LS_OP_NORM_INFERENCE:
        return (norm_kind){ run_inference, NULL, 0, 0 };
    case LS_OP_NORM_SUMS:
        return (norm_kind){ run_sums, NULL, 1, 0 };
    case LS_OP_NORM_APPLY:
        return (norm_kind){ run_apply, NULL, 0, 0 };
    case LS_OP_NORM_BACKWARD_SUMS:
        return (norm_kind){ run_backward_sums, NULL, 1, 0 };
    case LS_OP_NORM_BACKWARD_APPLY:
        return (norm_kind){ run_backward_apply, NULL, 0, 1 };
    default:
        return (norm_kind){ run_backward, run_backward_kept, 1, 1 };
    }
}

static void free_counters(ls_plan *plan) {
    ls_cuda_slab_free(((norm_plan *)plan)->done);
}

ls_status ls_cuda_norm_plan(ls_cuda_device *device, const ls_op_desc *desc, ls_plan **out) {
    const ls_norm_attr *a = &desc->attr.norm;
    LS_TRY(ls_cuda_check_packs(desc, a->shape, a->storage));
    if (a->pool_kernel) LS_TRY(ls_cuda_check_packs(desc, a->pooled, a->storage));
    norm_kind kind = kind_of(desc->op);
    ls_cuda_norm_gpu gpu = { device->multiprocessors, device->capability >= 90 ? LS_CUDA_CLUSTER_MAX : 1,
        device->shared_bytes, device->alone };
    ls_cuda_norm_grid grid = ls_cuda_norm_grid_of(desc, &gpu);
    int kept = grid.form != LS_CUDA_NORM_TWO_LAUNCHES;
    const char *algorithm = grid.form == LS_CUDA_NORM_IN_ONE_GRID   ? "own, 1 pass, grid"
                            : grid.form == LS_CUDA_NORM_IN_CLUSTERS ? "own, 1 pass"
                            : kind.kept                             ? "own, 2 passes"
                                                                    : "own";
    norm_plan *plan = ls_cuda_plan_make(device, desc, sizeof *plan, kept ? kind.kept : kind.run, algorithm);
    plan->grid = grid;
    plan->sums = kind.sums;
    plan->base.free_parts = free_counters;
    *out = &plan->base.base;
    size_t rows = (kind.sums ? (size_t)grid.places * 2 : 0) + (kind.factors && !kept ? 3 : 0);
    plan->base.base.workspace_bytes = rows * (size_t)grid.channels * sizeof(float);
    if (!kind.sums || kept) return LS_SUCCESS;
    ls_status status = ls_cuda_slab_new(&device->base, LS_MEMORY_DEVICE, (size_t)grid.columns * sizeof(unsigned),
        "a batch norm's counters", &plan->done);
    if (ls_failed(status)) ls_cuda_plan_free(&plan->base.base);
    return status;
}
