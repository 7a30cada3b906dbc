// op_elementwise.c - element-wise operators, in one launch each.
#include "device/cuda/cuda.h"
#include "device/cuda/kernels/elementwise.h"

static ls_cuda_elementwise_launch *launch_of(ls_op op) {
    switch (op) {
#define ELEMENTWISE(NAME, name, text, output, flops) \
    case LS_OP_##NAME: \
        return ls_cuda_elementwise_##name;
#include "device/ops.def"
    default:
        return NULL;
    }
}

static void run_elementwise(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    const ls_elementwise_attr *a = &plan->desc.attr.elementwise;
    int inputs = ls_op_args(plan->desc.op) - 1; // the output is the last argument
    launch_of(plan->desc.op)(a, ls_cuda_at(args[0]), inputs > 1 ? ls_cuda_at(args[1]) : NULL, ls_cuda_at(args[inputs]),
        ls_cuda_packs(a->shape, a->storage), queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static void run_dropout(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    const ls_elementwise_attr *a = &plan->desc.attr.elementwise;
    ls_cuda_elementwise_dropout(a, ls_cuda_channels(a->shape.c), ls_cuda_at(args[LS_DROPOUT_SRC]),
        ls_cuda_at(args[LS_DROPOUT_MICRO]), ls_cuda_at(args[LS_DROPOUT_DST]), queue->stream);
    ls_cuda_enqueued(plan, queue);
}

ls_status ls_cuda_elementwise_plan(ls_cuda_device *device, const ls_op_desc *desc, ls_plan **out) {
    LS_TRY(ls_cuda_check_packs(desc, desc->attr.elementwise.shape, desc->attr.elementwise.storage));
    ls_cuda_run *run = desc->op == LS_OP_DROPOUT ? run_dropout : run_elementwise;
    *out = ls_cuda_plan_make(device, desc, sizeof(ls_cuda_plan), run, "own");
    return LS_SUCCESS;
}
