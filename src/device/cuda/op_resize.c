// op_resize.c - bilinear resizing, in one launch.
#include "device/cuda/cuda.h"
#include "device/cuda/kernels/resize.h"

static void run_resize(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    const ls_resize_attr *a = &plan->desc.attr.resize;
    const ls_cuda_resize_args k = { .attr = *a,
        .channels = ls_cuda_channels(a->src.c),
        .src = ls_cuda_at(args[LS_RESIZE_SRC]),
        .dst = ls_cuda_at(args[LS_RESIZE_DST]) };
    ls_cuda_resize(&k, queue->stream);
    ls_cuda_enqueued(plan, queue);
}

ls_status ls_cuda_resize_plan(ls_cuda_device *device, const ls_op_desc *desc, ls_plan **out) {
    const ls_resize_attr *a = &desc->attr.resize;
    LS_TRY(ls_cuda_check_packs(desc, a->src, a->storage));
    LS_TRY(ls_cuda_check_packs(desc, a->dst, a->storage));
    *out = ls_cuda_plan_make(device, desc, sizeof(ls_cuda_plan), run_resize, "own");
    return LS_SUCCESS;
}
