// conv_direct.c - convolution by own kernels: sample by sample, from a padded copy
// of the source, so that no tap needs a check.
#include <string.h>
#include "device/cpu/conv.h"

// A copy with room around: pixel (y,x) of the map lies at (top + y*spread_h,
// left + x*spread_w); what falls outside is dropped.
typedef struct {
    int blocks, depth, h, w; // of the tensor; depth below the block: a plain tensor of that many channels
    int plain;
    int top, left, spread_h, spread_w;
    int height, width; // of the copy
} padded;

static size_t padded_floats(const padded *p) {
    return (size_t)p->blocks * (size_t)p->height * (size_t)p->width * (size_t)p->depth;
}

// Pixels x0..x1 of a row fall inside of the copy.
static void copy_row(const padded *p, const float *from, int block, int y, float *to) {
    size_t depth = (size_t)p->depth, pixels = (size_t)p->h * (size_t)p->w, pixel = (size_t)y * (size_t)p->w;
    int x0 = 0, x1 = p->w;
    while (x0 < x1 && p->left + x0 * p->spread_w < 0) x0++;
    while (x0 < x1 && p->left + (x1 - 1) * p->spread_w >= p->width) x1--;
    size_t step = depth * (size_t)p->spread_w, count = (size_t)(x1 - x0);
    if (!count) return;
    to += (size_t)(p->left + x0 * p->spread_w) * depth;
    pixel += (size_t)x0;
    if (p->plain) {
        for (size_t c = 0; c < depth; c++)
            for (size_t x = 0; x < count; x++) to[x * step + c] = from[c * pixels + pixel + x];
        return;
    }
    from += ((size_t)block * pixels + pixel) * depth;
    if (p->spread_w == 1)
        memcpy(to, from, count * depth * sizeof(float));
    else
        for (size_t x = 0; x < count; x++) memcpy(to + x * step, from + x * depth, depth * sizeof(float));
}

static void copy_padded(const padded *p, const float *from, float *to) {
    memset(to, 0, padded_floats(p) * sizeof(float));
    size_t row = (size_t)p->width * (size_t)p->depth;
    for (int block = 0; block < p->blocks; block++, to += (size_t)p->height * row)
        for (int y = 0; y < p->h; y++) {
            int at = p->top + y * p->spread_h;
            if (at >= 0 && at < p->height) copy_row(p, from, block, y, to + (size_t)at * row);
        }
}

static padded source_copy(const ls_conv_plan *plan) {
    const ls_conv_attr *a = &plan->base.base.desc.attr.conv;
    return (padded){ .blocks = plan->parts * plan->src_blocks,
        .depth = plan->depth,
        .h = a->src.h,
        .w = a->src.w,
        .plain = plan->depth < plan->block,
        .top = a->pad_h,
        .left = a->pad_w,
        .spread_h = 1,
        .spread_w = 1,
        .height = a->src.h + 2 * a->pad_h,
        .width = a->src.w + 2 * a->pad_w };
}

// The gradient of dst, spread by the stride: a convolution with the turned weights gives the gradient of src.
static padded gradient_copy(const ls_conv_plan *plan) {
    const ls_conv_attr *a = &plan->base.base.desc.attr.conv;
    int reach_h = a->dilation * (a->kernel_h - 1), reach_w = a->dilation * (a->kernel_w - 1);
    return (padded){ .blocks = plan->dst_blocks,
        .depth = plan->dst_depth,
        .h = a->dst.h,
        .w = a->dst.w,
        .plain = plan->dst_depth < plan->block,
        .top = reach_h - a->pad_h,
        .left = reach_w - a->pad_w,
        .spread_h = a->stride_h,
        .spread_w = a->stride_w,
        .height = a->src.h + reach_h,
        .width = a->src.w + reach_w };
}

static size_t map_floats(const ls_conv_plan *plan, ls_nchw shape) { // one block of one sample
    return (size_t)shape.h * (size_t)shape.w * (size_t)plan->block;
}

size_t ls_conv_direct_scratch(const ls_conv_plan *plan) {
    const ls_op_desc *desc = &plan->base.base.desc;
    padded copy = desc->op == LS_OP_CONV_BACKWARD_DATA ? gradient_copy(plan) : source_copy(plan);
    ls_nchw map = desc->op == LS_OP_CONV_BACKWARD_DATA ? desc->attr.conv.src : desc->attr.conv.dst;
    return (ls_cpu_round(padded_floats(&copy) * sizeof(float)) + map_floats(plan, map) * sizeof(float));
}

static float *scratch_of(const ls_conv_run *run, int thread) {
    return (float *)(void *)(run->workspace + run->plan->scratch_at + (size_t)thread * run->plan->scratch_bytes);
}

static float *behind(float *scratch, const padded *copy) {
    return (float *)(void *)((char *)scratch + ls_cpu_round(padded_floats(copy) * sizeof(float)));
}

// Between one block [h][w][B] and a plain tensor of few channels.
static void block_to_plain(const ls_conv_plan *plan, const float *block, int channels, ls_nchw shape, float *plain) {
    size_t pixels = (size_t)shape.h * (size_t)shape.w;
    for (size_t c = 0; c < (size_t)channels; c++)
        for (size_t i = 0; i < pixels; i++) plain[c * pixels + i] = block[i * (size_t)plan->block + c];
}

static void plain_to_block(const ls_conv_plan *plan, const float *plain, int channels, ls_nchw shape, float *block) {
    size_t pixels = (size_t)shape.h * (size_t)shape.w;
    memset(block, 0, map_floats(plan, shape) * sizeof(float));
    for (size_t c = 0; c < (size_t)channels; c++)
        for (size_t i = 0; i < pixels; i++) block[i * (size_t)plan->block + c] = plain[c * pixels + i];
}

// All output blocks of one sample; conv holds what is the same for them.
static void all_blocks(
    const ls_conv_plan *plan, ls_kernel_conv conv, int blocks, int depth, ls_nchw shape, float *dst, float *map) {
    const int part = blocks / plan->parts;
    const size_t source = (size_t)(conv.blocks * conv.height * conv.width * conv.depth);
    size_t weights = (size_t)(conv.blocks * conv.kernel_h * conv.kernel_w * conv.depth * plan->block);
    conv.weight_next = weights;
    conv.dst_next = map_floats(plan, shape);
    for (int b = 0; b < blocks; b += 1 + conv.pair) {
        if (b > 0 && b % part == 0) conv.src += source;
        conv.pair = part - b % part >= 2;
        conv.dst = depth < plan->block ? map : dst + (size_t)b * conv.dst_next;
        plan->base.cpu->kernels->conv(&conv);
        if (depth < plan->block) block_to_plain(plan, map, depth, shape, dst);
        conv.weight += weights * (size_t)(1 + conv.pair);
        if (conv.bias) conv.bias += plan->block * (1 + conv.pair);
    }
}

// From the padded copy to maps of this shape, with stride 1.
static ls_kernel_conv kernel_of(const ls_conv_run *run, const padded *copy, const float *src, ls_nchw shape) {
    const ls_conv_attr *a = &run->plan->base.base.desc.attr.conv;
    return (ls_kernel_conv){ .src = src,
        .weight = run->weight,
        .blocks = copy->blocks / run->plan->parts,
        .depth = copy->depth,
        .height = copy->height,
        .width = copy->width,
        .p = shape.h,
        .q = shape.w,
        .kernel_h = a->kernel_h,
        .kernel_w = a->kernel_w,
        .stride_h = 1,
        .stride_w = 1,
        .dilation = a->dilation };
}

void ls_conv_direct_forward(void *context, int n, int thread) {
    const ls_conv_run *run = context;
    const ls_conv_plan *plan = run->plan;
    const ls_conv_attr *a = &plan->base.base.desc.attr.conv;
    const padded copy = source_copy(plan);
    float *scratch = scratch_of(run, thread);
    copy_padded(&copy, run->src + (size_t)n * ls_cpu_sample(plan->base.cpu, a->src), scratch);
    ls_kernel_conv conv = kernel_of(run, &copy, scratch, a->dst);
    conv.bias = run->bias;
    conv.stride_h = a->stride_h;
    conv.stride_w = a->stride_w;
    all_blocks(plan, conv, plan->dst_blocks, plan->dst_depth, a->dst,
        run->dst + (size_t)n * ls_cpu_sample(plan->base.cpu, a->dst), behind(scratch, &copy));
}

void ls_conv_direct_backward_data(void *context, int n, int thread) {
    const ls_conv_run *run = context;
    const ls_conv_plan *plan = run->plan;
    const ls_conv_attr *a = &plan->base.base.desc.attr.conv;
    const padded copy = gradient_copy(plan);
    float *scratch = scratch_of(run, thread);
    copy_padded(&copy, run->dst + (size_t)n * ls_cpu_sample(plan->base.cpu, a->dst), scratch);
    all_blocks(plan, kernel_of(run, &copy, scratch, a->src), plan->parts * plan->src_blocks, plan->depth, a->src,
        run->src + (size_t)n * ls_cpu_sample(plan->base.cpu, a->src), behind(scratch, &copy));
}

// The gradient of one sample's dst block kb, which a plain tensor is first made into.
static const float *gradient_block(const ls_conv_run *run, int n, int kb, float *map) {
    const ls_conv_plan *plan = run->plan;
    const ls_conv_attr *a = &plan->base.base.desc.attr.conv;
    const float *dst = run->dst + (size_t)n * ls_cpu_sample(plan->base.cpu, a->dst);
    if (plan->dst_depth == plan->block) return dst + (size_t)kb * map_floats(plan, a->dst);
    plain_to_block(plan, dst, plan->dst_depth, a->dst, map);
    return map;
}

void ls_conv_direct_backward_weight(void *context, int task, int thread) {
    const ls_conv_run *run = context;
    const ls_conv_plan *plan = run->plan;
    const ls_kernels *kernels = plan->base.cpu->kernels;
    const ls_conv_attr *a = &plan->base.base.desc.attr.conv;
    padded copy = source_copy(plan);
    float *scratch = scratch_of(run, thread), *map = behind(scratch, &copy);
    float *partial = (float *)(void *)(run->workspace + plan->partial_at) + (size_t)task * plan->weight_floats;
    float *bias = (float *)(void *)(run->workspace + plan->bias_at) + (size_t)task * ls_conv_bias_floats(plan);
    if (run->grad_weight) memset(partial, 0, plan->weight_floats * sizeof(float));
    if (run->grad_bias) memset(bias, 0, ls_conv_bias_floats(plan) * sizeof(float));
    size_t weights = (size_t)(ls_conv_taps(a) * plan->depth * plan->block);
    ls_kernel_conv_grad conv = { .depth = plan->depth,
        .width = copy.width,
        .p = a->dst.h,
        .q = a->dst.w,
        .kernel_h = a->kernel_h,
        .kernel_w = a->kernel_w,
        .stride_h = a->stride_h,
        .stride_w = a->stride_w,
        .dilation = a->dilation };
    for (int n = ls_cpu_share(a->src.n, task, plan->tasks); n < ls_cpu_share(a->src.n, task + 1, plan->tasks); n++) {
        if (run->grad_weight) copy_padded(&copy, run->src + (size_t)n * ls_cpu_sample(plan->base.cpu, a->src), scratch);
        conv.grad_weight = partial;
        for (int kb = 0; kb < plan->dst_blocks; kb++) {
            conv.grad_dst = gradient_block(run, n, kb, map);
            const int first = kb / ls_conv_part_outputs(plan) * plan->src_blocks, end = first + plan->src_blocks;
            for (int cb = first; run->grad_weight && cb < end; cb++, conv.grad_weight += weights) {
                conv.src = scratch + (size_t)cb * padded_floats(&copy) / (size_t)copy.blocks;
                kernels->conv_grad(&conv);
            }
            if (run->grad_bias)
                kernels->column_sums(
                    conv.grad_dst, (size_t)plan->block, a->dst.h * a->dst.w, plan->block, bias + kb * plan->block);
        }
    }
}
