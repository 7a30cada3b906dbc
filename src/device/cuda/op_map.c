// op_map.c - element-wise operators; one launch each.
#include "device/cuda/cuda.h"
#include "device/cuda/kernels/map.h"

static int64_t packs_of(const ls_plan *plan) {
    return ls_cuda_packs(plan->desc.attr.map.shape, plan->desc.attr.map.storage);
}

static void run_relu(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    ls_cuda_map_relu(plan->desc.attr.map.storage, ls_cuda_at(args[LS_RELU_FORWARD_SRC]),
        ls_cuda_at(args[LS_RELU_FORWARD_DST]), packs_of(plan), queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static void run_relu_backward(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    ls_cuda_map_relu_backward(plan->desc.attr.map.storage, ls_cuda_at(args[LS_RELU_BACKWARD_DST]),
        ls_cuda_at(args[LS_RELU_BACKWARD_GRAD_DST]), ls_cuda_at(args[LS_RELU_BACKWARD_GRAD_SRC]), packs_of(plan),
        queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static void run_gelu(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    ls_cuda_map_gelu(plan->desc.attr.map.storage, ls_cuda_at(args[LS_GELU_FORWARD_SRC]),
        ls_cuda_at(args[LS_GELU_FORWARD_DST]), packs_of(plan), queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static void run_gelu_backward(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    ls_cuda_map_gelu_backward(plan->desc.attr.map.storage, ls_cuda_at(args[LS_GELU_BACKWARD_SRC]),
        ls_cuda_at(args[LS_GELU_BACKWARD_GRAD_DST]), ls_cuda_at(args[LS_GELU_BACKWARD_GRAD_SRC]), packs_of(plan),
        queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static void run_add(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    ls_cuda_map_add(plan->desc.attr.map.storage, ls_cuda_at(args[LS_ADD_A]), ls_cuda_at(args[LS_ADD_B]),
        ls_cuda_at(args[LS_ADD_DST]), packs_of(plan), queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static void run_scale(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    const ls_map_attr *a = &plan->desc.attr.map;
    ls_cuda_map_scale(a->storage, ls_cuda_at(args[LS_SCALE_SRC]), a->factor, ls_cuda_at(args[LS_SCALE_DST]),
        packs_of(plan), queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static void run_dropout(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    const ls_map_attr *a = &plan->desc.attr.map;
    ls_cuda_map_dropout(a, ls_cuda_channels(a->shape.c), ls_cuda_at(args[LS_DROPOUT_SRC]),
        ls_cuda_at(args[LS_DROPOUT_MICRO]), ls_cuda_at(args[LS_DROPOUT_DST]), queue->stream);
    ls_cuda_enqueued(plan, queue);
}

ls_status ls_cuda_map_plan(ls_cuda_device *device, const ls_op_desc *desc, ls_plan **out) {
    LS_TRY(ls_cuda_check_packs(desc, desc->attr.map.shape, desc->attr.map.storage));
    ls_cuda_run *run = desc->op == LS_OP_RELU_FORWARD    ? run_relu
                       : desc->op == LS_OP_RELU_BACKWARD ? run_relu_backward
                       : desc->op == LS_OP_GELU_FORWARD  ? run_gelu
                       : desc->op == LS_OP_GELU_BACKWARD ? run_gelu_backward
                       : desc->op == LS_OP_ADD           ? run_add
                       : desc->op == LS_OP_SCALE         ? run_scale
                                                         : run_dropout;
    return ls_cuda_plan_make(device, desc, sizeof(ls_cuda_plan), run, "own", out);
}
