// op_pool.c - max and average pooling, in one launch each.
#include "device/cuda/cuda.h"
#include "device/cuda/kernels/pool.h"

typedef struct {
    ls_cuda_plan base;
    ls_cuda_pool_kernel kernel;
    int channels;
} pool_plan;

static void run_forward(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    const pool_plan *own = (const pool_plan *)plan;
    const ls_pool_attr *a = &plan->desc.attr.pool;
    void *index = a->kind == LS_POOL_MAX && a->training ? ls_cuda_at(args[LS_POOL_FORWARD_INDEX]) : NULL;
    const float *bias = a->has_bias ? ls_cuda_at(args[LS_POOL_FORWARD_BIAS]) : NULL;
    ls_cuda_pool_forward(a, own->channels, own->kernel, ls_cuda_at(args[LS_POOL_FORWARD_SRC]), bias,
        ls_cuda_at(args[LS_POOL_FORWARD_DST]), index, queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static void run_backward(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    const pool_plan *own = (const pool_plan *)plan;
    ls_cuda_pool_backward(&plan->desc.attr.pool, own->channels, ls_cuda_at(args[LS_POOL_BACKWARD_GRAD_DST]),
        ls_cuda_at(args[LS_POOL_BACKWARD_INDEX]), ls_cuda_at(args[LS_POOL_BACKWARD_GRAD_SRC]), queue->stream);
    ls_cuda_enqueued(plan, queue);
}

// With many windows, one thread for each window keeps the memory busy. With fewer windows, several threads share each
// large window. The choice depends on the shape only, because it decides the order in which averages add up.
enum { ENOUGH_WINDOWS = 1 << 17, SHARED_WINDOW = 16 };

ls_status ls_cuda_pool_plan(ls_cuda_device *device, const ls_op_desc *desc, ls_plan **out) {
    const ls_pool_attr *a = &desc->attr.pool;
    LS_TRY(ls_cuda_check_packs(desc, a->src, a->storage));
    LS_TRY(ls_cuda_check_packs(desc, a->dst, a->storage));
    int shared = desc->op == LS_OP_POOL_FORWARD && a->kernel_h * a->kernel_w >= SHARED_WINDOW &&
                 ls_cuda_packs(a->dst, a->storage) < ENOUGH_WINDOWS;
    ls_cuda_run *run = desc->op == LS_OP_POOL_FORWARD ? run_forward : run_backward;
    pool_plan *plan = ls_cuda_plan_make(device, desc, sizeof *plan, run, shared ? "own, shared windows" : "own");
    plan->kernel = shared ? LS_CUDA_POOL_SHARED : LS_CUDA_POOL_WINDOW;
    plan->channels = ls_cuda_channels(a->src.c);
    *out = &plan->base.base;
    return LS_SUCCESS;
}
