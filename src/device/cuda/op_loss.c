// op_loss.c - softmax cross-entropy; one launch.
#include "device/cuda/cuda.h"
#include "device/cuda/kernels/loss.h"

typedef struct {
    ls_cuda_plan base;
    ls_slab *done; // one counter
} loss_plan;

static void run_loss(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    const ls_loss_attr *a = &plan->desc.attr.loss;
    float *losses = ls_cuda_at(workspace);
    ls_cuda_loss_args k = { .attr = *a,
        .channels = ls_cuda_channels(a->logits.c),
        .logits = ls_cuda_at(args[LS_LOSS_LOGITS]),
        .labels = ls_cuda_at(args[LS_LOSS_LABELS]),
        .samples = a->mixed ? ls_cuda_at(args[LS_LOSS_SAMPLE]) : NULL,
        .weights = a->weighted ? ls_cuda_at(args[LS_LOSS_WEIGHTS]) : NULL,
        .micro = ls_cuda_at(args[LS_LOSS_MICRO]),
        .state = ls_cuda_at(args[LS_LOSS_STATE]),
        .result = ls_cuda_at(args[LS_LOSS_RESULT]),
        .grad = a->training ? ls_cuda_at(args[LS_LOSS_GRAD_LOGITS]) : NULL,
        .losses = losses,
        .correct = (int *)(void *)(losses + a->logits.n),
        .done = (unsigned *)((const loss_plan *)plan)->done->address };
    ls_cuda_loss(&k, queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static void free_counter(ls_plan *plan) {
    ls_cuda_slab_free(((loss_plan *)plan)->done);
}

ls_status ls_cuda_loss_plan(ls_cuda_device *device, const ls_op_desc *desc, ls_plan **out) {
    const ls_loss_attr *a = &desc->attr.loss;
    loss_plan *plan;
    LS_TRY(ls_cuda_check_packs(desc, a->logits, a->storage));
    LS_TRY(ls_cuda_plan_make(device, desc, sizeof *plan, run_loss, "own", &plan));
    plan->base.free_parts = free_counter;
    plan->base.base.workspace_bytes = (size_t)a->logits.n * (sizeof(float) + sizeof(int));
    ls_status status =
        ls_cuda_slab_new(&device->base, LS_MEMORY_DEVICE, sizeof(unsigned), "the loss's counter", &plan->done);
    return LS_GIVE(status, &plan->base.base, out, ls_cuda_plan_free);
}
