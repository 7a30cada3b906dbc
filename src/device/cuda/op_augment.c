// op_augment.c - TrivialAugment, and the augmentation and normalisation of a batch after it, in one launch each.
#include "device/cuda/cuda.h"
#include "device/cuda/kernels/augment.h"

static void run_augment(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    const ls_augment_attr *a = &plan->desc.attr.augment;
    ls_cuda_augment_args k = { .attr = *a,
        .channels = ls_cuda_channels(a->shape.c),
        .pixels = ls_cuda_at(args[LS_AUGMENT_PIXELS]),
        .samples = ls_cuda_at(args[LS_AUGMENT_SAMPLE]),
        .table = ls_cuda_at(args[LS_AUGMENT_TABLE]),
        .dst = ls_cuda_at(args[LS_AUGMENT_DST]) };
    if (a->indexed) k.index = ls_cuda_at(args[LS_AUGMENT_INDEX]);
    ls_cuda_augment(&k, queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static void run_trivial_augment(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    const ls_augment_attr *a = &plan->desc.attr.augment;
    ls_cuda_trivial_augment_args k = { .shape = a->shape,
        .pixels = ls_cuda_at(args[LS_TRIVIAL_AUGMENT_PIXELS]),
        .samples = ls_cuda_at(args[LS_TRIVIAL_AUGMENT_SAMPLE]),
        .dst = ls_cuda_at(args[LS_TRIVIAL_AUGMENT_DST]) };
    if (a->indexed) k.index = ls_cuda_at(args[LS_TRIVIAL_AUGMENT_INDEX]);
    ls_cuda_trivial_augment(&k, queue->stream);
    ls_cuda_enqueued(plan, queue);
}

ls_status ls_cuda_augment_plan(ls_cuda_device *device, const ls_op_desc *desc, ls_plan **out) {
    const ls_augment_attr *a = &desc->attr.augment;
    LS_TRY(ls_cuda_check_packs(desc, a->shape, a->storage));
    *out = ls_cuda_plan_make(device, desc, sizeof(ls_cuda_plan),
        desc->op == LS_OP_TRIVIAL_AUGMENT ? run_trivial_augment : run_augment, "own");
    return LS_SUCCESS;
}
