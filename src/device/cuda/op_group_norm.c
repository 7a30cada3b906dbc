// op_group_norm.c - group norm. Forward has two launches (statistics, apply). Backward has three or four (sums, shares
// of the groups, parameters if affine, apply). Over pixels or nothing there are fewer.
#include "device/cuda/cuda.h"
#include "device/cuda/kernels/group_norm.h"

static void run_forward(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    const ls_group_norm_attr *a = &plan->desc.attr.group_norm;
    ls_cuda_group_norm_args k = { .attr = *a,
        .channels = ls_cuda_channels(a->shape.c),
        .src = ls_cuda_at(args[LS_GROUP_NORM_FORWARD_SRC]),
        .saved = ls_cuda_at(args[LS_GROUP_NORM_FORWARD_SAVED]),
        .out = ls_cuda_at(args[LS_GROUP_NORM_FORWARD_DST]) };
    if (a->affine) k.gamma = ls_cuda_at(args[LS_GROUP_NORM_FORWARD_GAMMA]);
    if (a->affine) k.beta = ls_cuda_at(args[LS_GROUP_NORM_FORWARD_BETA]);
    ls_cuda_group_norm_forward(&k, queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static void run_backward(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    const ls_group_norm_attr *a = &plan->desc.attr.group_norm;
    ls_cuda_group_norm_args k = { .attr = *a,
        .channels = ls_cuda_channels(a->shape.c),
        .src = ls_cuda_at(args[LS_GROUP_NORM_BACKWARD_SRC]),
        .grad_dst = ls_cuda_at(args[LS_GROUP_NORM_BACKWARD_GRAD_DST]),
        .saved = ls_cuda_at(args[LS_GROUP_NORM_BACKWARD_SAVED]),
        .out = ls_cuda_at(args[LS_GROUP_NORM_BACKWARD_GRAD_SRC]),
        .sums = ls_cuda_at(workspace) };
    k.shares = k.sums + (size_t)a->shape.n * 2 * (size_t)k.channels;
    if (a->affine) {
        k.gamma = ls_cuda_at(args[LS_GROUP_NORM_BACKWARD_GAMMA]);
        k.grad_gamma = ls_cuda_at(args[LS_GROUP_NORM_BACKWARD_GRAD_GAMMA]);
        k.grad_beta = ls_cuda_at(args[LS_GROUP_NORM_BACKWARD_GRAD_BETA]);
    }
    ls_cuda_group_norm_backward(&k, queue->stream);
    ls_cuda_enqueued(plan, queue);
}

ls_status ls_cuda_group_norm_plan(ls_cuda_device *device, const ls_op_desc *desc, ls_plan **out) {
    const ls_group_norm_attr *a = &desc->attr.group_norm;
    LS_TRY(ls_cuda_check_packs(desc, a->shape, a->storage));
    const int forward = desc->op == LS_OP_GROUP_NORM_FORWARD;
    ls_cuda_plan *plan = ls_cuda_plan_make(device, desc, sizeof *plan, forward ? run_forward : run_backward, "own");
    if (!forward)
        plan->base.workspace_bytes =
            (size_t)a->shape.n * 2 * (size_t)(ls_cuda_channels(a->shape.c) + a->groups) * sizeof(float);
    *out = &plan->base;
    return LS_SUCCESS;
}
