// op_resize.c - bilinear resizing. A task is one plane of a block of channels. There is no vector kernel: vector
// kernels may fuse multiplications and additions, but this operator must round each of them separately (op_resize.h).
#include "base/memory.h"
#include "device/cpu/cpu.h"

// The two source indices that an output position of one axis reads, and their weights.
typedef struct {
    int first, second;
    float of_first, of_second;
} tap;

typedef struct {
    ls_cpu_plan base;
    tap *rows, *columns; // of dst
    size_t block;        // adjacent channels
} resize_plan;

typedef struct {
    const resize_plan *plan;
    const float *src;
    float *dst;
} resize_run;

static void fill_taps(tap *taps, int size, int out_size) {
    const int64_t step = 2 * (int64_t)out_size;
    for (int i = 0; i < out_size; i++) {
        int64_t t = (2 * (int64_t)i + 1) * size - out_size;
        if (t < 0) t = 0;
        const int first = (int)(t / step);
        const float share = (float)(t % step) / (float)step;
        taps[i] = (tap){ first, first + 1 < size ? first + 1 : first, 1 - share, share };
    }
}

static void resize_row(const resize_plan *plan, const tap *row, const float *top, const float *bottom, float *dst) {
    const int q = plan->base.base.desc.attr.resize.dst.w;
    const size_t block = plan->block;
    for (int x = 0; x < q; x++) {
        const tap *column = &plan->columns[x];
        const size_t first = (size_t)column->first * block, second = (size_t)column->second * block;
        for (size_t lane = 0; lane < block; lane++) {
            float a = column->of_first * top[first + lane] + column->of_second * top[second + lane];
            float b = column->of_first * bottom[first + lane] + column->of_second * bottom[second + lane];
            *dst++ = row->of_first * a + row->of_second * b;
        }
    }
}

static void resize_task(void *context, int plane, int thread) {
    (void)thread;
    const resize_run *run = context;
    const resize_plan *plan = run->plan;
    const ls_resize_attr *attr = &plan->base.base.desc.attr.resize;
    const size_t src_row = (size_t)attr->src.w * plan->block, dst_row = (size_t)attr->dst.w * plan->block;
    const float *src = run->src + (size_t)plane * (size_t)attr->src.h * src_row;
    float *dst = run->dst + (size_t)plane * (size_t)attr->dst.h * dst_row;
    for (int y = 0; y < attr->dst.h; y++) {
        const tap *row = &plan->rows[y];
        resize_row(plan, row, src + (size_t)row->first * src_row, src + (size_t)row->second * src_row,
            dst + (size_t)y * dst_row);
    }
}

static void resize_plan_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    (void)queue;
    const ls_nchw src = plan->desc.attr.resize.src;
    resize_run run = { .plan = (const resize_plan *)plan,
        .src = ls_cpu_floats_at(args[LS_RESIZE_SRC]),
        .dst = ls_cpu_floats_at(args[LS_RESIZE_DST]) };
    ls_cpu *cpu = run.plan->base.cpu;
    ls_pool_run(cpu->pool, resize_task, &run, src.n * ls_cpu_blocks(cpu, src.c));
}

static void free_taps(ls_cpu_plan *plan) {
    free(((resize_plan *)plan)->rows);
    free(((resize_plan *)plan)->columns);
}

ls_status ls_cpu_resize_plan(ls_cpu *cpu, const ls_op_desc *desc, ls_plan **out) {
    const ls_nchw src = desc->attr.resize.src, dst = desc->attr.resize.dst;
    resize_plan *plan = ls_cpu_plan_make(cpu, desc, sizeof *plan, resize_plan_run, "own");
    plan->base.release = free_taps;
    plan->block = (size_t)ls_cpu_block(cpu, src.c);
    plan->rows = ls_new(dst.h, sizeof *plan->rows, "layer %s", desc->layer);
    plan->columns = ls_new(dst.w, sizeof *plan->columns, "layer %s", desc->layer);
    fill_taps(plan->rows, src.h, dst.h);
    fill_taps(plan->columns, src.w, dst.w);
    *out = &plan->base.base;
    return LS_SUCCESS;
}
