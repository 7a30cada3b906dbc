// op_pool.c - pooling, plane by plane.
#include "device/cpu/cpu.h"

enum { POOL_TASK_BYTES = 65536, STREAM_BYTES = 16 << 20 };

typedef struct {
    ls_cpu_plan base;
    const ls_kernels *kernels;
    ls_kernel_pool pool;
    int planes, planes_per_task;
    size_t src_plane, dst_plane; // elements
} pool_plan;

typedef struct {
    const pool_plan *plan;
    ls_kernel_pool pool;
    const void *in; // src, or grad_dst
    void *out;      // dst, or grad_src
    char *index;
} pool_run;

static void pool_task(void *context, int task, int thread) {
    (void)thread;
    const pool_run *run = context;
    const pool_plan *plan = run->plan;
    const ls_op_desc *desc = &plan->base.base.desc;
    int first = task * plan->planes_per_task;
    int planes = plan->planes - first < plan->planes_per_task ? plan->planes - first : plan->planes_per_task;
    size_t at_src = (size_t)first * plan->src_plane, at_dst = (size_t)first * plan->dst_plane;
    char *index = run->index ? run->index + at_dst * (plan->pool.wide_index ? 2 : 1) : NULL;
    const int max = desc->attr.pool.kind == LS_POOL_MAX, forward = desc->op == LS_OP_POOL_FORWARD;
    const void *in = ls_cpu_at(run->in, forward ? at_src : at_dst, desc->attr.pool.storage);
    void *out = ls_cpu_at(run->out, forward ? at_dst : at_src, desc->attr.pool.storage);
    if (forward && max)
        plan->kernels->pool_max_forward(&run->pool, planes, in, out, index);
    else if (forward)
        plan->kernels->pool_average_forward(&run->pool, planes, in, out);
    else if (max)
        plan->kernels->pool_max_backward(&run->pool, planes, in, index, out);
    else
        plan->kernels->pool_average_backward(&run->pool, planes, in, out);
}

static void pool_plan_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    (void)queue;
    const pool_plan *own = (const pool_plan *)plan;
    const ls_pool_attr *attr = &plan->desc.attr.pool;
    pool_run run = { .plan = own, .pool = own->pool };
    if (plan->desc.op == LS_OP_POOL_FORWARD) {
        run.in = ls_buffer_host(args[LS_POOL_FORWARD_SRC]);
        run.out = ls_buffer_host(args[LS_POOL_FORWARD_DST]);
        if (attr->kind == LS_POOL_MAX && attr->training) run.index = ls_buffer_host(args[LS_POOL_FORWARD_INDEX]);
    } else {
        run.in = ls_buffer_host(args[LS_POOL_BACKWARD_GRAD_DST]);
        run.out = ls_buffer_host(args[LS_POOL_BACKWARD_GRAD_SRC]);
        if (attr->kind == LS_POOL_MAX) run.index = ls_buffer_host(args[LS_POOL_BACKWARD_INDEX]);
    }
    run.pool.stream = own->pool.stream && ls_cpu_aligned(run.out);
    ls_pool_run(own->base.cpu->pool, pool_task, &run, (own->planes + own->planes_per_task - 1) / own->planes_per_task);
}

ls_status ls_cpu_pool_plan(ls_cpu *cpu, const ls_op_desc *desc, ls_plan **out) {
    const ls_pool_attr *attr = &desc->attr.pool;
    pool_plan *plan = ls_cpu_plan_make(cpu, desc, sizeof *plan, pool_plan_run, "own");
    plan->kernels = ls_cpu_kernels(cpu, attr->src.c, attr->storage);
    plan->pool = (ls_kernel_pool){ .h = attr->src.h,
        .w = attr->src.w,
        .p = attr->dst.h,
        .q = attr->dst.w,
        .kernel_h = attr->kernel_h,
        .kernel_w = attr->kernel_w,
        .stride_h = attr->stride_h,
        .stride_w = attr->stride_w,
        .pad_h = attr->pad_h,
        .pad_w = attr->pad_w,
        .relu = attr->relu,
        .wide_index = attr->kernel_h * attr->kernel_w >= LS_POOL_NONE_U8 };
    int blocks = ls_cpu_blocks(cpu, attr->src.c);
    plan->planes = attr->src.n * blocks;
    plan->src_plane = ls_cpu_sample(cpu, attr->src) / (size_t)blocks;
    plan->dst_plane = ls_cpu_sample(cpu, attr->dst) / (size_t)blocks;
    const size_t plane_bytes = plan->src_plane * ls_dtype_bytes(attr->storage),
                 per_task = POOL_TASK_BYTES / plane_bytes;
    plan->planes_per_task = per_task < 1 ? 1 : (int)per_task;
    // Stores around the cache write whole cache lines only: for rows of an odd number of vectors they would write half
    // lines, which is 3 to 7 times slower.
    plan->pool.stream = ls_cpu_block(cpu, attr->src.c) > 1 && attr->src.w % 2 == 0 &&
                        (size_t)plan->planes * plane_bytes >= STREAM_BYTES;
    *out = &plan->base.base;
    return LS_SUCCESS;
}
