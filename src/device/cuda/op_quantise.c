// op_quantise.c - the operators of fake quantisation, in one launch each.
#include "device/cuda/cuda.h"
#include "device/cuda/kernels/quantise.h"

static void run_map(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    const int backward = plan->desc.op == LS_OP_FAKE_QUANTISE_BACKWARD;
    ls_cuda_fake_quantise(ls_cuda_at(args[LS_FAKE_QUANTISE_SRC]), ls_cuda_at(args[LS_FAKE_QUANTISE_SCALE]),
        ls_cuda_at(args[LS_FAKE_QUANTISE_ZERO]), backward ? ls_cuda_at(args[LS_FAKE_QUANTISE_BACKWARD_GRAD_DST]) : NULL,
        ls_cuda_at(args[ls_op_args(plan->desc.op) - 1]), // the output is the last argument
        ls_cuda_packs(plan->desc.attr.quantise.shape, LS_F32), queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static void run_weight(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    const ls_param_shape *s = &plan->desc.attr.quantise.param;
    const int rows = ls_cuda_channels(s->dim[0]);
    const size_t all = ls_cuda_param_elements(&((const ls_cuda_plan *)plan)->device->base, s);
    ls_cuda_fake_quantise_weight(ls_cuda_at(args[LS_FAKE_QUANTISE_WEIGHT_SRC]),
        ls_cuda_at(args[LS_FAKE_QUANTISE_WEIGHT_DST]), rows, (int)(all / (size_t)rows), queue->stream);
    ls_cuda_enqueued(plan, queue);
}

ls_status ls_cuda_quantise_plan(ls_cuda_device *device, const ls_op_desc *desc, ls_plan **out) {
    const int weight = desc->op == LS_OP_FAKE_QUANTISE_WEIGHT;
    if (!weight) LS_TRY(ls_cuda_check_packs(desc, desc->attr.quantise.shape, LS_F32));
    *out = ls_cuda_plan_make(device, desc, sizeof(ls_cuda_plan), weight ? run_weight : run_map, "own");
    return LS_SUCCESS;
}
