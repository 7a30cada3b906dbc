// op_conv.c - makes and runs the plan of a convolution by the algorithm that conv_choose.c has chosen. The batch is
// split into tasks by the shape alone. Each task of a weight gradient has its own partial sum.
#include <string.h>
#include "device/cpu/conv.h"
#include "device/host.h"

enum { TASKS = 16, TASKS_LARGE = 8, LARGE_WEIGHTS = 2 << 20, PARTIAL_BYTES = 32 << 20, CUT_BYTES = 256 << 10 };

ls_conv_attr ls_conv_of_parts(const ls_cpu *cpu, const ls_conv_attr *attr) {
    ls_conv_attr of = *attr;
    while (of.groups > 1 && (attr->groups % of.groups != 0 || attr->src.c / of.groups % cpu->block != 0 ||
                                attr->dst.c / of.groups % cpu->block != 0))
        of.groups--;
    return of;
}

int ls_conv_multiplies_bf16(const ls_cpu *cpu, const ls_conv_attr *attr) {
    return attr->storage == LS_BF16 && cpu->cpus.has_avx512_bf16 && cpu->block == 16 && attr->groups == 1;
}

static int first_sample(const ls_conv_plan *plan, int task) {
    return ls_cpu_share(plan->base.base.desc.attr.conv.src.n, task, plan->tasks);
}

static void onednn_task(void *context, int task, int thread) {
    const ls_conv_run *run = context;
    const ls_conv_plan *plan = run->plan;
    const ls_op_desc *desc = &plan->base.base.desc;
    const ls_cpu *cpu = plan->base.cpu;
    const int range = task / plan->cuts, cut = task % plan->cuts;
    const size_t outputs = ls_conv_bias_floats(plan) / (size_t)plan->cuts;
    int begin = first_sample(plan, range), samples = first_sample(plan, range + 1) - begin;
    int most = (desc->attr.conv.src.n + plan->tasks - 1) / plan->tasks;
    const ls_dtype storage = desc->attr.conv.storage;
    size_t at_dst = (size_t)begin * ls_cpu_sample(cpu, desc->attr.conv.dst);
    at_dst += (size_t)cut * outputs * (size_t)(desc->attr.conv.dst.h * desc->attr.conv.dst.w);
    ls_onednn_conv_args args = { .src = ls_cpu_at(
                                     run->src, (size_t)begin * ls_cpu_sample(cpu, desc->attr.conv.src), storage),
        .dst = ls_cpu_at(run->dst, at_dst, storage),
        .weight = ls_cpu_at(run->weight, (size_t)cut * plan->weight_floats / (size_t)plan->cuts, LS_F32),
        .bias = run->bias,
        .scratch = run->workspace + plan->scratch_at + (size_t)thread * plan->scratch_bytes };
    if (args.bias) args.bias += (size_t)cut * outputs;
    if (desc->op == LS_OP_CONV_BACKWARD_WEIGHT) {
        args.weight = (float *)(void *)(run->workspace + plan->partial_at) + (size_t)task * plan->weight_floats;
        args.bias = (float *)(void *)(run->workspace + plan->bias_at) + (size_t)task * ls_conv_bias_floats(plan);
    }
    ls_status status = ls_onednn_conv_run(samples == most ? plan->longer : plan->shorter, thread, &args);
    if (ls_failed(status)) ls_host_queue_fail(run->queue, ls_fail(status.code, "%s: %s", desc->layer, status.text));
}

// Whether the weights must be converted to dense floats: they have groups or are not stored in fp32.
static int expands(const ls_conv_attr *attr) {
    return attr->groups > 1 || attr->storage != LS_F32;
}

// Returns the weights as the engine needs them: dense floats, for backward data exchanged or turned if necessary; or,
// for oneDNN in bf16, in oneDNN's own layout.
static const void *prepare_weights(const ls_conv_run *run, const void *stored) {
    const ls_conv_plan *plan = run->plan;
    const ls_op_desc *desc = &plan->base.base.desc;
    const float *weight = stored;
    if (plan->longer && desc->attr.conv.storage != LS_F32) {
        void *arranged = run->workspace + plan->turned_at;
        const ls_status status = ls_onednn_conv_arrange(plan->longer, stored, arranged);
        if (ls_failed(status)) ls_host_queue_fail(run->queue, ls_fail(status.code, "%s: %s", desc->layer, status.text));
        return arranged;
    }
    if (expands(&desc->attr.conv)) {
        float *dense = (float *)(void *)(run->workspace + plan->dense_at);
        ls_conv_expand(run, stored, dense);
        weight = dense;
    }
    if (desc->op == LS_OP_CONV_FORWARD) return weight;
    float *turned = (float *)(void *)(run->workspace + plan->turned_at);
    if (!plan->longer)
        ls_conv_turn(run, weight, turned);
    else if (ls_onednn_conv_exchanged(plan->longer))
        ls_conv_exchange(run, weight, turned);
    else
        return weight;
    return turned;
}

static void forward_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    ls_conv_run run = { .plan = (const ls_conv_plan *)plan,
        .queue = queue,
        .src = ls_buffer_host(args[LS_CONV_FORWARD_SRC]),
        .dst = ls_buffer_host(args[LS_CONV_FORWARD_DST]),
        .workspace = ls_buffer_host(workspace) };
    if (plan->desc.attr.conv.has_bias) run.bias = ls_cpu_floats_at(args[LS_CONV_FORWARD_BIAS]);
    run.weight = prepare_weights(&run, ls_buffer_host(args[LS_CONV_FORWARD_WEIGHT]));
    ls_pool_run(run.plan->base.cpu->pool, run.plan->longer ? onednn_task : ls_conv_direct_forward, &run,
        run.plan->tasks * run.plan->cuts);
}

static void backward_data_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    ls_conv_run run = { .plan = (const ls_conv_plan *)plan,
        .queue = queue,
        .src = ls_buffer_host(args[LS_CONV_BACKWARD_DATA_GRAD_SRC]),
        .dst = ls_buffer_host(args[LS_CONV_BACKWARD_DATA_GRAD_DST]),
        .workspace = ls_buffer_host(workspace) };
    run.weight = prepare_weights(&run, ls_buffer_host(args[LS_CONV_BACKWARD_DATA_WEIGHT]));
    ls_pool_run(
        run.plan->base.cpu->pool, run.plan->longer ? onednn_task : ls_conv_direct_backward_data, &run, run.plan->tasks);
}

static void backward_weight_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    ls_conv_run run = { .plan = (const ls_conv_plan *)plan,
        .queue = queue,
        .src = ls_buffer_host(args[LS_CONV_BACKWARD_WEIGHT_SRC]),
        .dst = ls_buffer_host(args[LS_CONV_BACKWARD_WEIGHT_GRAD_DST]),
        .grad_weight = ls_cpu_floats_at(args[LS_CONV_BACKWARD_WEIGHT_GRAD_WEIGHT]),
        .workspace = ls_buffer_host(workspace) };
    if (plan->desc.attr.conv.has_bias) run.grad_bias = ls_cpu_floats_at(args[LS_CONV_BACKWARD_WEIGHT_GRAD_BIAS]);
    ls_pool_run(run.plan->base.cpu->pool, run.plan->longer ? onednn_task : ls_conv_direct_backward_weight, &run,
        run.plan->tasks);
    ls_conv_reduce(&run);
}

// Runs the plan by Winograd. If weights are expanded, the workspace starts with the dense weights. For the weight
// gradient with groups it starts with the dense gradient, which ls_conv_reduce then adds as one partial sum.
static void winograd_run(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    const ls_conv_plan *own = (const ls_conv_plan *)plan;
    ls_conv_run run = { .plan = own, .queue = queue, .workspace = ls_buffer_host(workspace) };
    void *pointers[LS_OP_ARGS_MAX] = { NULL };
    float *dense = (float *)(void *)run.workspace;
    for (int i = 0; i < ls_op_args(plan->desc.op); i++) pointers[i] = ls_buffer_host(args[i]);
    const int is_weight = plan->desc.op == LS_OP_CONV_BACKWARD_WEIGHT;
    if (is_weight && plan->desc.attr.conv.groups > 1) {
        run.grad_weight = pointers[LS_CONV_BACKWARD_WEIGHT_GRAD_WEIGHT];
        pointers[LS_CONV_BACKWARD_WEIGHT_GRAD_WEIGHT] = memset(dense, 0, own->weight_floats * sizeof *dense);
    } else if (!is_weight && expands(&plan->desc.attr.conv)) {
        const int at = plan->desc.op == LS_OP_CONV_FORWARD ? LS_CONV_FORWARD_WEIGHT : LS_CONV_BACKWARD_DATA_WEIGHT;
        ls_conv_expand(&run, pointers[at], dense);
        pointers[at] = dense;
    }
    ls_winograd_run(&own->winograd, pointers, (float *)(void *)(run.workspace + own->scratch_at), own->base.cpu->pool);
    ls_conv_reduce(&run);
}

static int use_winograd(ls_conv_plan *plan, ls_winograd_variant variant) {
    const ls_op_desc *desc = &plan->base.base.desc;
    const ls_cpu *cpu = plan->base.cpu;
    const ls_conv_attr attr = ls_conv_of_parts(cpu, &desc->attr.conv);
    if (plan->depth < plan->block || plan->dst_depth < plan->block) return 0; // tensors are plain
    if (!ls_winograd_can(&attr, desc->op, variant)) return 0;
    // depthwise: nearly all dense weights are zero
    if (desc->attr.conv.groups == desc->attr.conv.src.c && attr.src.c > 1) return 0;
    const ls_winograd_kernels *kernels = ls_cpu_kernels(cpu, cpu->block, attr.storage)->winograd;
    ls_winograd_plan_make(&plan->winograd, &attr, desc->op, variant, kernels, cpu->threads);
    if (expands(&desc->attr.conv)) plan->scratch_at = ls_cpu_round(plan->weight_floats * sizeof(float));
    plan->tasks = 1;
    plan->base.base.run = winograd_run;
    plan->base.base.algorithm = plan->winograd.algorithm;
    plan->base.base.workspace_bytes = plan->scratch_at + plan->winograd.workspace_bytes;
    return 1;
}

static void conv_release(ls_cpu_plan *plan) {
    ls_conv_plan *own = (ls_conv_plan *)plan;
    if (own->shorter != own->longer) ls_onednn_conv_free(own->shorter);
    ls_onednn_conv_free(own->longer);
}

// Returns how many tasks divide the output blocks of a range of samples. With few pictures, reading the weights takes
// most of the time. Then there are more tasks than samples, and each task reads its own part of the weights.
static int cuts_of(const ls_conv_plan *plan) {
    const int samples = plan->base.base.desc.attr.conv.src.n;
    const size_t bytes = plan->weight_floats * sizeof(float);
    int cuts = 1;
    if (plan->base.base.desc.op != LS_OP_CONV_FORWARD || plan->parts > 1) return cuts;
    if (plan->base.base.desc.attr.conv.storage != LS_F32) return cuts; // arranged weights cannot be split
    while (
        samples * cuts < TASKS_LARGE && plan->dst_blocks % (2 * cuts) == 0 && bytes / (size_t)(2 * cuts) >= CUT_BYTES)
        cuts *= 2;
    return cuts;
}

static ls_status plan_onednn(ls_conv_plan *plan) {
    const ls_op_desc *desc = &plan->base.base.desc;
    const ls_conv_attr *a = &desc->attr.conv;
    // For plain tensors, own kernels are as fast in the forward pass and up to five times as fast for the weight
    // gradient of one channel.
    if (plan->depth < plan->block || plan->dst_depth < plan->block) return LS_SUCCESS;
    if (a->storage != LS_F32 && !ls_conv_multiplies_bf16(plan->base.cpu, a)) return LS_SUCCESS;
    if (!plan->base.cpu->onednn) return LS_SUCCESS;
    plan->cuts = cuts_of(plan);
    ls_onednn_conv_attr attr = { .pass = desc->op == LS_OP_CONV_FORWARD         ? LS_ONEDNN_FORWARD
                                         : desc->op == LS_OP_CONV_BACKWARD_DATA ? LS_ONEDNN_BACKWARD_DATA
                                                                                : LS_ONEDNN_BACKWARD_WEIGHT,
        .samples = (a->src.n + plan->tasks - 1) / plan->tasks,
        .src_channels = plan->parts * plan->src_blocks * plan->depth,
        .dst_channels = plan->dst_blocks / plan->cuts * plan->block,
        .groups = plan->parts,
        .h = a->src.h,
        .w = a->src.w,
        .p = a->dst.h,
        .q = a->dst.w,
        .kernel = { a->kernel_h, a->kernel_w },
        .stride = { a->stride_h, a->stride_w },
        .pad = { a->pad_h, a->pad_w },
        .dilation = a->dilation,
        .block = plan->block,
        .storage = a->storage,
        .has_bias = a->has_bias && desc->op != LS_OP_CONV_BACKWARD_DATA };
    LS_TRY(ls_onednn_conv_new(plan->base.cpu->onednn, &attr, &plan->longer));
    plan->shorter = plan->longer;
    if (!plan->longer || a->src.n % plan->tasks == 0) return LS_SUCCESS;
    attr.samples--;
    LS_TRY(ls_onednn_conv_new(plan->base.cpu->onednn, &attr, &plan->shorter));
    if (plan->shorter && ls_onednn_conv_alike(plan->shorter, plan->longer)) return LS_SUCCESS;
    ls_onednn_conv_free(plan->shorter);
    ls_onednn_conv_free(plan->longer);
    plan->longer = plan->shorter = NULL;
    return LS_SUCCESS;
}

static void describe_geometry(ls_conv_plan *plan) {
    const ls_op_desc *desc = &plan->base.base.desc;
    const ls_conv_attr *a = &desc->attr.conv;
    const ls_cpu *cpu = plan->base.cpu;
    plan->block = cpu->block;
    plan->depth = a->src.c <= ls_cpu_few(cpu) ? a->src.c : cpu->block;
    plan->dst_depth = a->dst.c <= ls_cpu_few(cpu) ? a->dst.c : cpu->block;
    plan->parts = ls_conv_of_parts(cpu, a).groups;
    plan->src_blocks = a->src.c <= ls_cpu_few(cpu) ? 1 : ls_cpu_blocks(cpu, a->src.c / plan->parts);
    plan->dst_blocks = ls_cpu_vector(cpu, a->dst.c) / cpu->block;
    plan->weight_floats =
        (size_t)(plan->dst_blocks * plan->block) * (size_t)(plan->src_blocks * plan->depth) * (size_t)ls_conv_taps(a);
    size_t bytes = plan->weight_floats * sizeof(float);
    plan->tasks = bytes >= LARGE_WEIGHTS ? TASKS_LARGE : TASKS;
    if (desc->op == LS_OP_CONV_BACKWARD_WEIGHT && (size_t)plan->tasks * bytes > PARTIAL_BYTES)
        plan->tasks = PARTIAL_BYTES / bytes < 4 ? 4 : (int)(PARTIAL_BYTES / bytes);
    if (plan->tasks > a->src.n) plan->tasks = a->src.n;
}

static void lay_out_workspace(ls_conv_plan *plan) {
    const ls_op_desc *desc = &plan->base.base.desc;
    const int arranged = plan->longer && desc->attr.conv.storage != LS_F32;
    size_t weights = ls_cpu_round(plan->weight_floats * sizeof(float)), at = 0;
    if (desc->op == LS_OP_CONV_BACKWARD_WEIGHT) {
        plan->partial_at = at;
        if (!desc->attr.conv.bias_only) at += ls_cpu_round((size_t)plan->tasks * plan->weight_floats * sizeof(float));
        plan->bias_at = at;
        at += ls_cpu_round((size_t)plan->tasks * ls_conv_bias_floats(plan) * sizeof(float));
    } else {
        plan->dense_at = at;
        if (expands(&desc->attr.conv) && !arranged) at += weights;
        plan->turned_at = at;
        // turned weights have whole blocks of source channels
        if (arranged)
            at += ls_onednn_conv_arranged_bytes(plan->longer);
        else if (desc->op == LS_OP_CONV_BACKWARD_DATA)
            at += weights / (size_t)plan->depth * (size_t)plan->block + LS_CPU_ALIGN;
    }
    at = ls_cpu_round(at);
    if (plan->longer) {
        plan->scratch_bytes = ls_onednn_conv_scratch_bytes(plan->longer);
        size_t other = ls_onednn_conv_scratch_bytes(plan->shorter);
        if (other > plan->scratch_bytes) plan->scratch_bytes = other;
    } else {
        plan->scratch_bytes = ls_conv_direct_scratch(plan);
    }
    plan->scratch_bytes = ls_cpu_round(plan->scratch_bytes);
    plan->scratch_at = at;
    plan->base.base.workspace_bytes = at + (size_t)plan->base.cpu->threads * plan->scratch_bytes;
}

// Completes the plan for the algorithm. *can is 0 if the algorithm cannot compute the operator.
static ls_status use(ls_conv_plan *plan, int algorithm, int *can) {
    const ls_op_desc *desc = &plan->base.base.desc;
    *can = 1;
    if (algorithm < LS_WINOGRAD_VARIANTS) {
        *can = use_winograd(plan, (ls_winograd_variant)algorithm);
        return LS_SUCCESS;
    }
    if (algorithm == LS_CONV_ONEDNN) {
        LS_TRY(plan_onednn(plan));
        *can = plan->longer != NULL;
        if (!*can) return LS_SUCCESS;
        plan->base.base.algorithm = ls_onednn_conv_name(plan->longer);
    } else if (desc->op != LS_OP_CONV_BACKWARD_WEIGHT) {
        plan->tasks = desc->attr.conv.src.n;
    }
    lay_out_workspace(plan);
    return LS_SUCCESS;
}

ls_status ls_cpu_conv_plan_by(ls_cpu *cpu, const ls_op_desc *desc, int algorithm, ls_plan **out) {
    ls_cpu_run *run = desc->op == LS_OP_CONV_FORWARD         ? forward_run
                      : desc->op == LS_OP_CONV_BACKWARD_DATA ? backward_data_run
                                                             : backward_weight_run;
    *out = NULL;
    if (algorithm == LS_CONV_GROUPED)
        return ls_conv_grouped_can(cpu, desc) ? ls_cpu_conv_grouped_plan(cpu, desc, out) : LS_SUCCESS;
    ls_conv_plan *plan = ls_cpu_plan_make(cpu, desc, sizeof *plan, run, ls_conv_name(LS_CONV_DIRECT));
    plan->base.release = conv_release;
    describe_geometry(plan);
    plan->cuts = 1;
    int can = 0;
    ls_status status = use(plan, algorithm, &can);
    if (ls_failed(status) || !can)
        ls_cpu_plan_free(&plan->base.base);
    else
        *out = &plan->base.base;
    return status;
}
