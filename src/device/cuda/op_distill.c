// op_distill.c - the teacher's part of the loss, in one launch.
#include "device/cuda/cuda.h"
#include "device/cuda/kernels/distill.h"

typedef struct {
    ls_cuda_plan base;
    ls_slab *done; // counter of finished blocks
} distill_plan;

static void run_distill(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    const ls_distill_attr *a = &plan->desc.attr.distill;
    const ls_cuda_distill_args k = { .attr = *a,
        .channels = ls_cuda_channels(a->logits.c),
        .logits = ls_cuda_at(args[LS_DISTILL_LOGITS]),
        .teacher = ls_cuda_at(args[LS_DISTILL_TEACHER]),
        .micro = ls_cuda_at(args[LS_DISTILL_MICRO]),
        .state = ls_cuda_at(args[LS_DISTILL_STATE]),
        .result = ls_cuda_at(args[LS_DISTILL_RESULT]),
        .grad = ls_cuda_at(args[LS_DISTILL_GRAD_LOGITS]),
        .losses = ls_cuda_at(workspace),
        .bad = (int *)ls_cuda_at(workspace) + a->logits.n,
        .done = (unsigned *)(void *)((const distill_plan *)plan)->done->address };
    ls_cuda_distill(&k, queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static void free_counter(ls_plan *plan) {
    ls_cuda_slab_free(((distill_plan *)plan)->done);
}

ls_status ls_cuda_distill_plan(ls_cuda_device *device, const ls_op_desc *desc, ls_plan **out) {
    const ls_distill_attr *a = &desc->attr.distill;
    LS_TRY(ls_cuda_check_packs(desc, a->logits, a->storage));
    distill_plan *plan = ls_cuda_plan_make(device, desc, sizeof *plan, run_distill, "own");
    plan->base.free_parts = free_counter;
    plan->base.base.workspace_bytes = (size_t)a->logits.n * (sizeof(float) + sizeof(int));
    ls_status status =
        ls_cuda_slab_new(&device->base, LS_MEMORY_DEVICE, sizeof(unsigned), "the teacher's counter", &plan->done);
    return LS_GIVE_OR_FREE(status, &plan->base.base, out, ls_cuda_plan_free);
}
