// op_channels.c - copies of channels, in one launch.
#include "device/cuda/cuda.h"
#include "device/cuda/kernels/channels.h"

static void run_copy(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    const ls_channels_attr *a = &plan->desc.attr.channels;
    ls_cuda_copy_channels(a, ls_cuda_channels(a->src.c), ls_cuda_channels(a->dst.c),
        ls_cuda_at(args[LS_COPY_CHANNELS_SRC]), a->interleave ? ls_cuda_at(args[LS_COPY_CHANNELS_SRC2]) : NULL,
        ls_cuda_at(args[LS_COPY_CHANNELS_DST]), queue->stream);
    ls_cuda_enqueued(plan, queue);
}

ls_status ls_cuda_channels_plan(ls_cuda_device *device, const ls_op_desc *desc, ls_plan **out) {
    if (desc->attr.channels.two_sources)
        return ls_fail(LS_USAGE,
            "layer %s: the cuda device copies channels of one source; LS_FUSES_CONCAT_ADD is not among its fusions",
            desc->layer);
    LS_TRY(ls_cuda_check_packs(desc, desc->attr.channels.dst, desc->attr.channels.storage));
    *out = ls_cuda_plan_make(device, desc, sizeof(ls_cuda_plan), run_copy, "own");
    return LS_SUCCESS;
}
