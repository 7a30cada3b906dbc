// conv_grouped.c - grouped and depthwise convolutions (ls_kernel_grouped). Each vector lane computes one output
// channel, so no multiplication is wasted on channels of other groups. In forward and backward data, a task computes a
// range of planes; a plane is one block of one sample. In the weight gradient, a task sums over a range of samples, for
// some of the blocks. Afterwards add_task adds the sums of all tasks in a fixed order.
#include <limits.h>
#include <string.h>
#include "base/half.h"
#include "device/cpu/conv.h"

enum { TASK_BYTES = 256 << 10, TASKS = 64, SUM_TASKS = 16, STREAM_BYTES = 16 << 20, WIDTH_MAX = 16 };

typedef struct {
    ls_cpu_plan base;
    const ls_kernels *kernels;
    ls_kernel_grouped map; // arguments common to all planes
    // block size and blocks of the tensor whose channels the lanes hold: dst, or in backward data src
    int block, blocks;
    // channels of the tensor in the lanes, and its channels in each group
    int channels, each;
    size_t in_sample, out_sample; // elements of a sample of the tensor that is read, and of the tensor of the lanes
    size_t in_plane, out_plane;   // elements of one block of such a sample
    size_t block_weights;         // floats in a block of weights or sums
    int tasks;
    int parts, cuts; // tasks of the weight gradient: parts of the samples times cuts of the blocks
    int stream;
    // offsets into the workspace in bytes; the workspace starts with weights or sums
    size_t bias_at, rooms_at, room_bytes;
} grouped_plan;

typedef struct {
    const grouped_plan *plan;
    const void *in, *weight; // in: src, or in backward data grad_dst
    const float *bias;
    void *out; // written; in the weight gradient it is grad_dst and is read
    float *grad_weight, *grad_bias;
    char *workspace;
    int stream;
} grouped_run;

static const ls_conv_attr *attr_of(const grouped_plan *plan) {
    return &plan->base.base.desc.attr.conv;
}

static float *weights_of(const grouped_run *run, int block) { // packed weights of a block
    return (float *)(void *)run->workspace + (size_t)block * run->plan->block_weights;
}

static float *sums_of(const grouped_run *run, int part, int block) {
    return weights_of(run, part * run->plan->blocks + block);
}

static float *bias_sums_of(const grouped_run *run, int part) {
    return (float *)(void *)(run->workspace + run->plan->bias_at) +
           (size_t)(part * run->plan->blocks * run->plan->block);
}

// Index of a weight in the parameter. channel: the channel whose lane holds the weight. i: number of the input channel
// within the group.
static size_t canonical(const grouped_plan *plan, int channel, int i, int tap) {
    const ls_conv_attr *a = attr_of(plan);
    const int in = a->src.c / a->groups, taps = ls_conv_taps(a);
    int k = channel, c = i;
    // lanes are source channels, and taps are in reverse order
    if (plan->base.base.desc.op == LS_OP_CONV_BACKWARD_DATA) {
        k = channel / plan->each * plan->map.depth + i;
        c = channel % plan->each;
        tap = taps - 1 - tap;
    }
    return ((size_t)k * (size_t)in + (size_t)c) * (size_t)taps + (size_t)tap;
}

// Returns the index, in a block of packed weights or sums, of the weight of a lane, input channel i of its group and
// tap.
static size_t packed(const grouped_plan *plan, int lane, int i, int tap) {
    const int r = tap / plan->map.kernel_w, s = tap % plan->map.kernel_w;
    return (size_t)(((r * plan->map.depth + i) * plan->map.kernel_w + s) * plan->block + lane);
}

static int lanes_of(const grouped_plan *plan, int block) {
    const int left = plan->channels - block * plan->block;
    return left < plan->block ? left : plan->block;
}

static void pack_task(void *context, int block, int thread) {
    (void)thread;
    const grouped_run *run = context;
    const grouped_plan *plan = run->plan;
    const int taps = ls_conv_taps(attr_of(plan)), lanes = lanes_of(plan, block);
    const ls_dtype storage = attr_of(plan)->storage;
    float *to = weights_of(run, block);
    memset(to, 0, plan->block_weights * sizeof *to);
    for (int lane = 0; lane < lanes; lane++)
        for (int i = 0; i < plan->map.depth; i++)
            for (int tap = 0; tap < taps; tap++)
                to[packed(plan, lane, i, tap)] =
                    ls_load_float(run->weight, storage, (int64_t)canonical(plan, block * plan->block + lane, i, tap));
}

// Kernel arguments for the planes of a task; take_block completes them for one block.
static ls_kernel_grouped begin_task(const grouped_run *run, int thread) {
    const grouped_plan *plan = run->plan;
    ls_kernel_grouped map = plan->map;
    map.stream = run->stream;
    map.rows = (float *)(void *)(run->workspace + plan->rooms_at + (size_t)thread * plan->room_bytes);
    memset(map.rows, 0, plan->room_bytes);
    return map;
}

static void take_block(const grouped_run *run, int n, int block, int32_t first[WIDTH_MAX], ls_kernel_grouped *map) {
    const grouped_plan *plan = run->plan;
    const ls_dtype storage = attr_of(plan)->storage;
    map->src = ls_cpu_at(run->in, (size_t)n * plan->in_sample, storage);
    map->dst = ls_cpu_at(run->out, (size_t)n * plan->out_sample + (size_t)block * plan->out_plane, storage);
    map->grad_dst = map->dst;
    map->weight = weights_of(run, block);
    map->bias = run->bias ? run->bias + block * plan->block : NULL;
    if (plan->map.depth == 1 && plan->each == 1) {
        map->src = ls_cpu_at(map->src, (size_t)block * plan->in_plane, storage);
        return;
    }
    const int lanes = lanes_of(plan, block);
    for (int lane = 0; lane < plan->block; lane++)
        first[lane] = lane < lanes ? (block * plan->block + lane) / plan->each * map->depth : INT_MIN / 2;
    map->first = first;
    map->last = first[lanes - 1];
}

static void product_task(void *context, int task, int thread) {
    const grouped_run *run = context;
    const grouped_plan *plan = run->plan;
    const int planes = attr_of(plan)->src.n * plan->blocks, end = ls_cpu_share(planes, task + 1, plan->tasks);
    int32_t first[WIDTH_MAX];
    ls_kernel_grouped map = begin_task(run, thread);
    for (int plane = ls_cpu_share(planes, task, plan->tasks); plane < end; plane++) {
        take_block(run, plane / plan->blocks, plane % plan->blocks, first, &map);
        plan->kernels->conv_grouped(&map);
    }
}

static void sum_plane(const grouped_run *run, int n, int part, int block, ls_kernel_grouped *map) {
    const grouped_plan *plan = run->plan;
    int32_t first[WIDTH_MAX];
    take_block(run, n, block, first, map);
    map->sums = sums_of(run, part, block);
    plan->kernels->conv_grouped_grad(map);
    if (run->grad_bias)
        plan->kernels->column_sums(map->grad_dst, (size_t)plan->block, map->p * map->q, plan->block,
            bias_sums_of(run, part) + block * plan->block);
}

// Sums the weight gradient over a range of samples, for some blocks of channels. The inner loop is over blocks: the
// planes of one sample are adjacent in memory, so that the processor prefetches them.
static void sum_task(void *context, int task, int thread) {
    const grouped_run *run = context;
    const grouped_plan *plan = run->plan;
    const int part = task / plan->cuts, cut = task % plan->cuts, samples = attr_of(plan)->src.n;
    const int begin = ls_cpu_share(plan->blocks, cut, plan->cuts),
              end = ls_cpu_share(plan->blocks, cut + 1, plan->cuts);
    const size_t blocks = (size_t)(end - begin);
    ls_kernel_grouped map = begin_task(run, thread);
    memset(sums_of(run, part, begin), 0, blocks * plan->block_weights * sizeof(float));
    memset(bias_sums_of(run, part) + begin * plan->block, 0, blocks * (size_t)plan->block * sizeof(float));
    for (int n = ls_cpu_share(samples, part, plan->parts); n < ls_cpu_share(samples, part + 1, plan->parts); n++)
        for (int block = begin; block < end; block++) sum_plane(run, n, part, block, &map);
}

// For one block: grad_weight and grad_bias += the sums of the parts, in order.
static void add_task(void *context, int block, int thread) {
    (void)thread;
    const grouped_run *run = context;
    const grouped_plan *plan = run->plan;
    const int taps = ls_conv_taps(attr_of(plan)), lanes = lanes_of(plan, block);
    for (int lane = 0; lane < lanes; lane++)
        for (int i = 0; i < plan->map.depth; i++)
            for (int tap = 0; tap < taps; tap++) {
                float *to = run->grad_weight + canonical(plan, block * plan->block + lane, i, tap);
                for (int part = 0; part < plan->parts; part++)
                    *to += sums_of(run, part, block)[packed(plan, lane, i, tap)];
            }
    for (int lane = 0; lane < lanes && run->grad_bias; lane++)
        for (int part = 0; part < plan->parts; part++)
            run->grad_bias[block * plan->block + lane] += bias_sums_of(run, part)[block * plan->block + lane];
}

static void run_product(grouped_run *run) {
    ls_pool *pool = run->plan->base.cpu->pool;
    ls_pool_run(pool, pack_task, run, run->plan->blocks);
    ls_pool_run(pool, product_task, run, run->plan->tasks);
}

static void forward_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)queue;
    grouped_run run = { .plan = (const grouped_plan *)plan,
        .in = ls_buffer_host(args[LS_CONV_FORWARD_SRC]),
        .weight = ls_buffer_host(args[LS_CONV_FORWARD_WEIGHT]),
        .out = ls_buffer_host(args[LS_CONV_FORWARD_DST]),
        .workspace = ls_buffer_host(workspace) };
    if (plan->desc.attr.conv.has_bias) run.bias = ls_cpu_floats_at(args[LS_CONV_FORWARD_BIAS]);
    run.stream = run.plan->stream && ls_cpu_aligned(run.out);
    run_product(&run);
}

static void backward_data_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)queue;
    grouped_run run = { .plan = (const grouped_plan *)plan,
        .in = ls_buffer_host(args[LS_CONV_BACKWARD_DATA_GRAD_DST]),
        .weight = ls_buffer_host(args[LS_CONV_BACKWARD_DATA_WEIGHT]),
        .out = ls_buffer_host(args[LS_CONV_BACKWARD_DATA_GRAD_SRC]),
        .workspace = ls_buffer_host(workspace) };
    run.stream = run.plan->stream && ls_cpu_aligned(run.out);
    run_product(&run);
}

static void backward_weight_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    (void)queue;
    grouped_run run = { .plan = (const grouped_plan *)plan,
        .in = ls_buffer_host(args[LS_CONV_BACKWARD_WEIGHT_SRC]),
        .out = ls_buffer_host(args[LS_CONV_BACKWARD_WEIGHT_GRAD_DST]),
        .grad_weight = ls_cpu_floats_at(args[LS_CONV_BACKWARD_WEIGHT_GRAD_WEIGHT]),
        .workspace = ls_buffer_host(workspace) };
    if (plan->desc.attr.conv.has_bias) run.grad_bias = ls_cpu_floats_at(args[LS_CONV_BACKWARD_WEIGHT_GRAD_BIAS]);
    ls_pool *pool = run.plan->base.cpu->pool;
    ls_pool_run(pool, sum_task, &run, run.plan->tasks);
    ls_pool_run(pool, add_task, &run, run.plan->blocks);
}

// --- the plan ------------------------------------------------------------------------------------

int ls_conv_grouped_can(const ls_cpu *cpu, const ls_op_desc *desc) {
    const ls_conv_attr *a = &desc->attr.conv;
    const int plain = a->src.c <= ls_cpu_few(cpu) || a->dst.c <= ls_cpu_few(cpu); // a plain tensor has no lanes
    return a->groups > 1 && !a->bias_only && !plain && a->kernel_h <= LS_GROUPED_ROWS;
}

// Compares the time of one output with dense convolution, in vector multiplications. Bringing a channel to its lane
// takes a few of them, and each multiplication takes longer because both factors come from the cache. With the few
// channels of a part, Winograd's real gain is less than half of the multiplications it saves. Measured: the estimate is
// within 25% for 3x3 filters in groups of 4 to 32 channels.
int ls_conv_grouped_gains(const ls_cpu *cpu, const ls_op_desc *desc, double winograd_gain) {
    const double bringing = 4, slower = 1.5, winograds = 2.2;
    const ls_conv_attr *a = &desc->attr.conv;
    const int back = desc->op == LS_OP_CONV_BACKWARD_DATA, taps = ls_conv_taps(a);
    const ls_nchw in = back ? a->dst : a->src, out = back ? a->src : a->dst;
    if (in.c == a->groups && out.c == a->groups) return 1;
    const double in_pixels = (double)in.h * in.w, out_pixels = (double)out.h * out.w;
    const double own = slower * in.c / a->groups * (taps * out_pixels + bringing * in_pixels);
    const double dense = (double)ls_cpu_channels(cpu, in.c / ls_conv_of_parts(cpu, a).groups) * taps * out_pixels;
    return own < (winograd_gain > winograds ? dense / winograd_gain * winograds : dense);
}

// Describes the padded map that the kernel reads: src, or the gradient of dst with zeros between its pixels according
// to the stride.
static void describe_map(grouped_plan *plan) {
    const ls_conv_attr *a = attr_of(plan);
    const int reach_h = a->dilation * (a->kernel_h - 1), reach_w = a->dilation * (a->kernel_w - 1);
    const int back = plan->base.base.desc.op == LS_OP_CONV_BACKWARD_DATA;
    const ls_nchw in = back ? a->dst : a->src, out = back ? a->src : a->dst;
    ls_kernel_grouped *m = &plan->map;
    *m = (ls_kernel_grouped){ .depth = in.c / a->groups,
        .h = in.h,
        .w = in.w,
        .top = back ? reach_h - a->pad_h : a->pad_h,
        .left = back ? reach_w - a->pad_w : a->pad_w,
        .spread_h = back ? a->stride_h : 1,
        .spread_w = back ? a->stride_w : 1,
        .kept = 1,
        .p = out.h,
        .q = out.w,
        .kernel_h = a->kernel_h,
        .kernel_w = a->kernel_w,
        .stride_h = back ? 1 : a->stride_h,
        .stride_w = back ? 1 : a->stride_w,
        .dilation = a->dilation };
    m->width = (m->q - 1) * m->stride_w + reach_w + 1;
    while (m->kept < reach_h / m->spread_h + 1 && m->kept < m->h) m->kept *= 2;
    plan->channels = out.c;
    plan->each = out.c / a->groups;
}

static void describe_memory(grouped_plan *plan) {
    const ls_cpu *cpu = plan->base.cpu;
    const ls_conv_attr *a = attr_of(plan);
    const ls_kernel_grouped *m = &plan->map;
    const int back = plan->base.base.desc.op == LS_OP_CONV_BACKWARD_DATA;
    const ls_nchw in = back ? a->dst : a->src, out = back ? a->src : a->dst;
    plan->kernels = ls_cpu_kernels(cpu, out.c, a->storage);
    plan->block = ls_cpu_block(cpu, out.c);
    plan->blocks = ls_cpu_blocks(cpu, out.c);
    plan->in_sample = ls_cpu_sample(cpu, in);
    plan->out_sample = ls_cpu_sample(cpu, out);
    const size_t block = (size_t)plan->block, row = (size_t)m->depth * (size_t)m->width * block;
    plan->in_plane = (size_t)in.h * (size_t)in.w * block;
    plan->out_plane = (size_t)out.h * (size_t)out.w * block;
    plan->block_weights = (size_t)ls_conv_taps(a) * (size_t)m->depth * block;
    plan->room_bytes = ls_cpu_round((size_t)(m->kept + 1) * row * sizeof(float));
}

static void cut_into_tasks(grouped_plan *plan) {
    const ls_conv_attr *a = attr_of(plan);
    if (plan->base.base.desc.op == LS_OP_CONV_BACKWARD_WEIGHT) {
        plan->parts = a->src.n < SUM_TASKS ? a->src.n : SUM_TASKS;
        plan->cuts = SUM_TASKS / plan->parts < plan->blocks ? SUM_TASKS / plan->parts : plan->blocks;
        plan->tasks = plan->parts * plan->cuts;
        return;
    }
    const size_t bytes = (size_t)a->src.n * (plan->in_sample + plan->out_sample) * ls_dtype_bytes(a->storage);
    const size_t tasks = bytes * (size_t)plan->map.depth / TASK_BYTES + 1, planes = (size_t)(a->src.n * plan->blocks);
    plan->parts = 1;
    plan->tasks = (int)(tasks < planes ? tasks : planes);
    if (plan->tasks > TASKS) plan->tasks = TASKS;
    plan->stream = plan->block > 1 && (size_t)a->src.n * plan->out_sample * ls_dtype_bytes(a->storage) >= STREAM_BYTES;
}

ls_status ls_cpu_conv_grouped_plan(ls_cpu *cpu, const ls_op_desc *desc, ls_plan **out) {
    ls_cpu_run *run = desc->op == LS_OP_CONV_FORWARD         ? forward_run
                      : desc->op == LS_OP_CONV_BACKWARD_DATA ? backward_data_run
                                                             : backward_weight_run;
    grouped_plan *plan = ls_cpu_plan_make(cpu, desc, sizeof *plan, run, ls_conv_name(LS_CONV_GROUPED));
    describe_map(plan);
    describe_memory(plan);
    cut_into_tasks(plan);
    const size_t blocks = (size_t)(plan->parts * plan->blocks);
    plan->bias_at = ls_cpu_round(blocks * plan->block_weights * sizeof(float));
    plan->rooms_at = plan->bias_at + ls_cpu_round(blocks * (size_t)plan->block * sizeof(float));
    plan->base.base.workspace_bytes = plan->rooms_at + (size_t)cpu->threads * plan->room_bytes;
    *out = &plan->base.base;
    return LS_SUCCESS;
}
