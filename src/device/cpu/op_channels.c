// op_channels.c - copies channels block by block. Between a plain and a blocked tensor it copies channel by channel.
#include <string.h>
#include "base/half.h"
#include "device/cpu/cpu.h"

typedef struct {
    ls_cpu_plan base;
    const ls_kernels *kernels;
    ls_kernel_channels copy;
    size_t src_sample, dst_sample, src_plane, dst_plane; // elements
    ls_dtype storage;
    int src_block, dst_block, src_blocks, dst_blocks;
} channels_plan;

typedef struct {
    const channels_plan *plan;
    const void *sources[2]; // the second, if not NULL, is added to the first, or takes turns with it
    void *dst;
} channels_run;

// Fills block `db` of dst from the one or two blocks of source number i that hold its channels.
static void copy_block(const channels_plan *plan, int db, int i, const void *src, void *dst) {
    const ls_channels_attr *a = &plan->base.base.desc.attr.channels;
    const int width = plan->dst_block;
    ls_kernel_channels copy = plan->copy;
    copy.add = i && !a->interleave;
    copy.keep = a->keep || a->interleave;
    int block = -1, last = 0; // of the source; channels ascend
    for (int lane = 0; lane < width; lane++) {
        const int from = ls_channels_source(a, i, db * width + lane);
        if (from >= 0 && block < 0) block = from / width;
        if (from >= 0) last = from / width;
        copy.lane[lane] = from < 0 ? -1 : from - block * width;
    }
    if (block < 0) return;
    const void *low = ls_cpu_at(src, (size_t)block * plan->src_plane, plan->storage);
    const void *high = last > block ? ls_cpu_at(src, (size_t)last * plan->src_plane, plan->storage) : NULL;
    plan->kernels->copy_channels(&copy, low, high, dst);
}

static void copy_channel(const channels_plan *plan, int lane, int add, const void *src, void *dst) {
    const ls_kernel_channels *k = &plan->copy;
    for (int p = 0; p < k->p; p++)
        for (int q = 0; q < k->q; q++) {
            const int64_t to =
                (int64_t)(((size_t)p * k->dst_row + (size_t)q * k->dst_step) * (size_t)plan->dst_block) + lane;
            const int64_t from =
                (int64_t)(((size_t)p * k->src_row + (size_t)q * k->src_step) * (size_t)plan->src_block);
            const float value = ls_load_float(src, plan->storage, from);
            ls_store_float(dst, plan->storage, to, add ? ls_load_float(dst, plan->storage, to) + value : value);
        }
}

static void copy_by_channels(const channels_plan *plan, int db, int i, const void *src, void *dst) {
    const ls_channels_attr *a = &plan->base.base.desc.attr.channels;
    for (int lane = 0; lane < plan->dst_block; lane++) {
        const int from = ls_channels_source(a, i, db * plan->dst_block + lane);
        if (from < 0) continue;
        const size_t at = (size_t)(from / plan->src_block) * plan->src_plane + (size_t)(from % plan->src_block);
        copy_channel(plan, lane, i && !a->interleave, ls_cpu_at(src, at, plan->storage), dst);
    }
}

static void channels_task(void *context, int task, int thread) { // task: a block of dst
    (void)thread;
    const channels_run *run = context;
    const channels_plan *plan = run->plan;
    const ls_channels_attr *a = &plan->base.base.desc.attr.channels;
    const int n = task / plan->dst_blocks, db = task % plan->dst_blocks;
    void *dst = ls_cpu_at(run->dst, (size_t)n * plan->dst_sample + (size_t)db * plan->dst_plane, plan->storage);
    const int end = a->to + (a->count << a->interleave);
    const int touched = db * plan->dst_block < end && (db + 1) * plan->dst_block > a->to;
    // alternate: two source blocks fill a block of dst only if both ranges of channels begin in their first block
    const int same = plan->src_block == plan->dst_block && (!a->alternate || (a->from < 2 && a->to == 0));
    if (!a->keep && (!touched || a->spread || a->interleave || !same))
        memset(dst, 0, plan->dst_plane * ls_dtype_bytes(plan->storage));
    if (!touched) return;
    for (int i = 0; i < 2 && run->sources[i]; i++)
        (same ? copy_block : copy_by_channels)(
            plan, db, i, ls_cpu_at(run->sources[i], (size_t)n * plan->src_sample, plan->storage), dst);
}

static void channels_plan_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)workspace;
    (void)queue;
    const channels_plan *own = (const channels_plan *)plan;
    channels_run run = { .plan = own,
        .sources = { ls_buffer_host(args[LS_COPY_CHANNELS_SRC]) },
        .dst = ls_buffer_host(args[LS_COPY_CHANNELS_DST]) };
    if (plan->desc.attr.channels.two_sources || plan->desc.attr.channels.interleave)
        run.sources[1] = ls_buffer_host(args[LS_COPY_CHANNELS_SRC2]);
    ls_pool_run(own->base.cpu->pool, channels_task, &run, plan->desc.attr.channels.dst.n * own->dst_blocks);
}

ls_status ls_cpu_channels_plan(ls_cpu *cpu, const ls_op_desc *desc, ls_plan **out) {
    const ls_channels_attr *a = &desc->attr.channels;
    const ls_nchw copied = ls_channels_copied(a);
    const size_t stride = (size_t)a->stride, src_step = a->spread ? 1 : stride, dst_step = a->spread ? stride : 1;
    channels_plan *plan = ls_cpu_plan_make(cpu, desc, sizeof *plan, channels_plan_run, "own");
    plan->kernels = ls_cpu_kernels(cpu, a->dst.c, a->storage);
    plan->storage = a->storage;
    plan->copy = (ls_kernel_channels){ .p = copied.h,
        .q = copied.w,
        .src_step = src_step,
        .src_row = src_step * (size_t)a->src.w,
        .dst_step = dst_step,
        .dst_row = dst_step * (size_t)a->dst.w };
    plan->src_block = ls_cpu_block(cpu, a->src.c);
    plan->dst_block = ls_cpu_block(cpu, a->dst.c);
    plan->src_blocks = ls_cpu_blocks(cpu, a->src.c);
    plan->dst_blocks = ls_cpu_blocks(cpu, a->dst.c);
    plan->src_sample = ls_cpu_sample(cpu, a->src);
    plan->dst_sample = ls_cpu_sample(cpu, a->dst);
    plan->src_plane = plan->src_sample / (size_t)plan->src_blocks;
    plan->dst_plane = plan->dst_sample / (size_t)plan->dst_blocks;
    *out = &plan->base.base;
    return LS_SUCCESS;
}
