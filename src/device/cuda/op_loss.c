// op_loss.c - the loss, and the head of a network, in one launch each.
#include "device/cuda/cuda.h"
#include "device/cuda/kernels/head.h"

typedef struct {
    ls_cuda_plan base;
    ls_slab *done; // counter of finished blocks
} loss_plan;

static ls_cuda_loss_args loss_args(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace) {
    const ls_loss_attr *a = &plan->desc.attr.loss;
    float *losses = ls_cuda_at(workspace);
    return (ls_cuda_loss_args){ .attr = *a,
        .scale = a->scale != 0 ? a->scale : 1,
        .channels = ls_cuda_channels(a->logits.c),
        .logits = ls_cuda_at(args[LS_LOSS_LOGITS]),
        .labels = ls_cuda_at(args[LS_LOSS_LABELS]),
        .samples = a->mixed ? ls_cuda_at(args[LS_LOSS_SAMPLE]) : NULL,
        .weights = a->weighted ? ls_cuda_at(args[LS_LOSS_WEIGHTS]) : NULL,
        .sets = a->several ? ls_cuda_at(args[LS_LOSS_SETS]) : NULL,
        .micro = ls_cuda_at(args[LS_LOSS_MICRO]),
        .state = ls_cuda_at(args[LS_LOSS_STATE]),
        .result = ls_cuda_at(args[LS_LOSS_RESULT]),
        .grad = a->training ? ls_cuda_at(args[LS_LOSS_GRAD_LOGITS]) : NULL,
        .losses = losses,
        .correct = (int *)(void *)(losses + a->logits.n),
        .done = (unsigned *)((const loss_plan *)plan)->done->address };
}

static void run_loss(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    const ls_cuda_loss_args k = loss_args(plan, args, workspace);
    (k.attr.several || k.attr.focal_gamma > 0 ? ls_cuda_focal_loss : ls_cuda_loss)(&k, queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static void run_head(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    const ls_loss_attr *a = &plan->desc.attr.loss;
    const ls_cuda_head_args k = { .loss = loss_args(plan, args, workspace),
        .channels = ls_cuda_channels(a->src.c),
        .src = ls_cuda_at(args[LS_HEAD_SRC]),
        .weight = ls_cuda_at(args[LS_HEAD_WEIGHT]),
        .bias = a->has_bias ? ls_cuda_at(args[LS_HEAD_BIAS]) : NULL,
        .logits = ls_cuda_at(args[LS_LOSS_LOGITS]),
        .pooled = ls_cuda_at(args[LS_HEAD_POOLED]),
        .grad_src = ls_cuda_at(args[LS_HEAD_GRAD_SRC]) };
    ls_cuda_head(&k, queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static void free_counter(ls_plan *plan) {
    ls_cuda_slab_free(((loss_plan *)plan)->done);
}

ls_status ls_cuda_loss_plan(ls_cuda_device *device, const ls_op_desc *desc, ls_plan **out) {
    const ls_loss_attr *a = &desc->attr.loss;
    LS_TRY(ls_cuda_check_packs(desc, a->logits, a->storage));
    ls_cuda_run *run = desc->op == LS_OP_HEAD ? run_head : run_loss;
    loss_plan *plan = ls_cuda_plan_make(device, desc, sizeof *plan, run, "own");
    plan->base.free_parts = free_counter;
    plan->base.base.workspace_bytes = (size_t)a->logits.n * (sizeof(float) + sizeof(int));
    ls_status status =
        ls_cuda_slab_new(&device->base, LS_MEMORY_DEVICE, sizeof(unsigned), "the loss's counter", &plan->done);
    return LS_GIVE_OR_FREE(status, &plan->base.base, out, ls_cuda_plan_free);
}
