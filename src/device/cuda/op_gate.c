// op_gate.c - gates, in one launch each.
#include "device/cuda/cuda.h"
#include "device/cuda/kernels/channels.h"

static void run_gate(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    const ls_gate_attr *a = &plan->desc.attr.gate;
    ls_cuda_gate(a, ls_cuda_channels(a->shape.c), ls_cuda_at(args[LS_GATE_SRC]), ls_cuda_at(args[LS_GATE_GATE]),
        ls_cuda_at(args[LS_GATE_DST]), queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static void run_backward(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    const ls_gate_attr *a = &plan->desc.attr.gate;
    ls_cuda_gate_backward(a, ls_cuda_channels(a->shape.c), ls_cuda_at(args[LS_GATE_BACKWARD_SRC]),
        ls_cuda_at(args[LS_GATE_BACKWARD_GRAD_DST]), ls_cuda_at(args[LS_GATE_BACKWARD_GRAD_GATE]), queue->stream);
    ls_cuda_enqueued(plan, queue);
}

ls_status ls_cuda_gate_plan(ls_cuda_device *device, const ls_op_desc *desc, ls_plan **out) {
    LS_TRY(ls_cuda_check_packs(desc, desc->attr.gate.shape, desc->attr.gate.storage));
    ls_cuda_run *run = desc->op == LS_OP_GATE ? run_gate : run_backward;
    *out = ls_cuda_plan_make(device, desc, sizeof(ls_cuda_plan), run, "own");
    return LS_SUCCESS;
}
