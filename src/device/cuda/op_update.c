// op_update.c - the operators of the update on CUDA, except Muon (op_muon.c). The kernels are in kernels/update.cu.

#include "base/memory.h"
#include "device/cuda/cuda.h"
#include "device/cuda/kernels/update.h"

static void run_to_fixed_point(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    ls_cuda_to_fixed_point(&plan->desc.attr.flat, ls_cuda_at(args[LS_TO_FIXED_POINT_GRAD]),
        ls_cuda_at(args[LS_TO_FIXED_POINT_STATE]), ls_cuda_at(args[LS_TO_FIXED_POINT_FIXED]), queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static void run_from_fixed_point(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    ls_cuda_from_fixed_point(&plan->desc.attr.flat, ls_cuda_at(args[LS_FROM_FIXED_POINT_FIXED]),
        ls_cuda_at(args[LS_FROM_FIXED_POINT_STATE]), ls_cuda_at(args[LS_FROM_FIXED_POINT_GRAD]), queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static void run_average(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    ls_cuda_average(&plan->desc.attr.flat, ls_cuda_at(args[LS_AVERAGE_WINDOW]), ls_cuda_at(args[LS_AVERAGE_STATE]),
        ls_cuda_at(args[LS_AVERAGE_AVERAGE]), ls_cuda_at(args[LS_AVERAGE_WEIGHT]), queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static void run_cast(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    ls_cuda_cast(&plan->desc.attr.flat, ls_cuda_at(args[LS_CAST_SRC]), ls_cuda_at(args[LS_CAST_DST]), queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static void run_cast_to_f32(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    ls_cuda_cast_to_f32(&plan->desc.attr.flat, ls_cuda_at(args[LS_CAST_TO_F32_SRC]),
        ls_cuda_at(args[LS_CAST_TO_F32_DST]), queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static void run_widen(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    ls_cuda_widen(
        &plan->desc.attr.flat, ls_cuda_at(args[LS_WIDEN_ROUNDED]), ls_cuda_at(args[LS_WIDEN_GRAD]), queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static void run_update_begin(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    ls_cuda_update_begin(&plan->desc.attr.flat, ls_cuda_at(args[LS_UPDATE_BEGIN_WINDOWS]),
        ls_cuda_at(args[LS_UPDATE_BEGIN_STATE]), ls_cuda_at(args[LS_UPDATE_BEGIN_WINDOW]),
        ls_cuda_at(args[LS_UPDATE_BEGIN_RESULT]), ls_cuda_at(args[LS_UPDATE_BEGIN_SUMS]), queue->stream);
    ls_cuda_enqueued(plan, queue);
}

// --- optimizers: the segments are in device memory as long as the plan exists --------------------

typedef struct {
    ls_cuda_plan plan;
    ls_slab *segments;
} optimizer_plan;

static ls_cuda_step_launch *launch_of(ls_op op) {
    switch (op) {
#define STEP(NAME, name, text, flops) \
    case LS_OP_##NAME: \
        return ls_cuda_##name;
#include "device/ops.def"
    case LS_OP_LARS:
        return ls_cuda_lars;
    default:
        return NULL;
    }
}

static void run_step(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    const ls_optimizer_attr *attr = &plan->desc.attr.optimizer;
    const int kept = ls_op_args(plan->desc.op) - LS_STEP_OTHER_ARGS;
    ls_cuda_step_args step = {
        .segments = (const void *)((const optimizer_plan *)plan)->segments->address,
        .state = ls_cuda_at(args[LS_STEP_STATE]),
        .grad = ls_cuda_at(args[LS_STEP_GRAD]),
        .weight = ls_cuda_at(args[LS_STEP_KEPT + kept]),
        .copy = attr->storage == LS_F32 ? NULL : ls_cuda_at(args[LS_STEP_KEPT + kept + 1]),
    };
    if (plan->workspace_bytes) step.workspace = ls_cuda_at(workspace);
    for (int k = 0; k < kept; k++) step.kept[k] = ls_cuda_at(args[LS_STEP_KEPT + k]);
    launch_of(plan->desc.op)(attr, &step, queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static ls_status upload_segments(ls_cuda_device *device, const ls_optimizer_attr *a, ls_slab **out) {
    size_t bytes = (size_t)a->segment_count * sizeof(ls_cuda_segment);
    LS_TRY(ls_cuda_slab_new(&device->base, LS_MEMORY_DEVICE, bytes, "the optimizer's constants", out));
    ls_cuda_segment *host = ls_new(a->segment_count, sizeof *host, "%d optimizer segments", a->segment_count);
    int64_t end = 0;
    for (int s = 0; s < a->segment_count; s++) {
        const ls_step_segment *from = &a->segments[s];
        end += from->count;
        host[s] =
            (ls_cuda_segment){ end, from->lr_factor, from->decay, from->momentum, from->rate, s, from->rests_with };
    }
    cudaError_t rc = cudaMemcpy((*out)->address, host, bytes, cudaMemcpyHostToDevice);
    if (rc == cudaSuccess) rc = cudaStreamSynchronize(NULL); // queues do not wait for the default stream
    free(host);
    return rc == cudaSuccess ? LS_SUCCESS : ls_cuda_fail("copy of the optimizer's constants", rc);
}

static void free_segments(ls_plan *plan) {
    ls_slab *slab = ((optimizer_plan *)plan)->segments;
    if (slab) ls_cuda_slab_free(slab);
}

ls_status ls_cuda_optimizer_plan(ls_cuda_device *device, const ls_op_desc *desc, ls_plan **out) {
    if (desc->op == LS_OP_MUON) return ls_cuda_muon_plan(device, desc, out);
    optimizer_plan *own = ls_cuda_plan_make(device, desc, sizeof *own, run_step, "own kernel");
    own->plan.free_parts = free_segments;
    if (desc->op == LS_OP_LARS) own->plan.base.workspace_bytes = ls_cuda_lars_workspace(&desc->attr.optimizer);
    ls_status status = upload_segments(device, &desc->attr.optimizer, &own->segments);
    return LS_GIVE_OR_FREE(status, &own->plan.base, out, ls_cuda_plan_free);
}

// --- other operators -----------------------------------------------------------------------------

static ls_status plan_with(ls_cuda_device *device, const ls_op_desc *desc, ls_cuda_run *run, ls_plan **out) {
    ls_cuda_plan *plan = ls_cuda_plan_make(device, desc, sizeof *plan, run, "own kernel");
    *out = &plan->base;
    return LS_SUCCESS;
}

ls_status ls_cuda_flat_plan(ls_cuda_device *device, const ls_op_desc *desc, ls_plan **out) {
    switch (desc->op) {
    case LS_OP_UPDATE_BEGIN:
        return plan_with(device, desc, run_update_begin, out);
    case LS_OP_TO_FIXED_POINT:
        return plan_with(device, desc, run_to_fixed_point, out);
    case LS_OP_FROM_FIXED_POINT:
        return plan_with(device, desc, run_from_fixed_point, out);
    case LS_OP_AVERAGE:
        return plan_with(device, desc, run_average, out);
    case LS_OP_CAST_TO_F32:
        return plan_with(device, desc, run_cast_to_f32, out);
    case LS_OP_WIDEN:
        return plan_with(device, desc, run_widen, out);
    default:
        return plan_with(device, desc, run_cast, out);
    }
}

// --- control -------------------------------------------------------------------------------------

typedef struct {
    ls_cuda_plan plan;
    ls_slab *done; // counter of finished blocks
} control_plan;

static void run_step_control(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    const ls_cuda_control_args control = { .attr = plan->desc.attr.step_control,
        .window = ls_cuda_at(args[LS_STEP_CONTROL_WINDOW]),
        .grad = ls_cuda_at(args[LS_STEP_CONTROL_GRAD]),
        .rounded = ls_cuda_at(args[LS_STEP_CONTROL_ROUNDED]),
        .state = ls_cuda_at(args[LS_STEP_CONTROL_STATE]),
        .reports = ls_cuda_at(args[LS_STEP_CONTROL_REPORTS]),
        .parts = ls_cuda_at(workspace),
        .done = (unsigned *)(void *)((const control_plan *)plan)->done->address };
    ls_cuda_step_control(&control, queue->stream);
    ls_cuda_enqueued(plan, queue);
}

static void free_counter(ls_plan *plan) {
    ls_cuda_slab_free(((control_plan *)plan)->done);
}

ls_status ls_cuda_step_control_plan(ls_cuda_device *device, const ls_op_desc *desc, ls_plan **out) {
    control_plan *own = ls_cuda_plan_make(device, desc, sizeof *own, run_step_control, "own kernel");
    own->plan.free_parts = free_counter;
    own->plan.base.workspace_bytes = ls_cuda_control_workspace(desc->attr.step_control.count);
    ls_status status =
        ls_cuda_slab_new(&device->base, LS_MEMORY_DEVICE, sizeof(unsigned), "update control's counter", &own->done);
    return LS_GIVE_OR_FREE(status, &own->plan.base, out, ls_cuda_plan_free);
}
