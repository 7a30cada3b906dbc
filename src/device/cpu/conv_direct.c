// conv_direct.c - convolution by own kernels, sample by sample. They read a padded copy of their input map, so no tap
// needs a bounds check.
//
// With stride s, the gradient of the source splits into s x s phases: pixels (y,x) with the same remainders of y and x
// modulo s. Each phase is a convolution with stride 1 of the gradient of dst, with only those taps of the filter that
// meet the phase's pixels. So no time is spent on multiplying zeros.
#include <string.h>
#include "base/half.h"
#include "device/cpu/conv.h"

// A copy of a map with padding around it: pixel (y,x) lies at (top + y, left + x). Pixels that fall outside the copy
// are dropped.
typedef struct {
    int blocks, depth, h, w; // of the tensor; with depth below the block size, a plain tensor with that many channels
    int plain;
    const ls_kernels *kernels; // for the tensor's storage type
    ls_dtype storage;
    int top, left;
    int height, width; // size of the copy
} padded;

static size_t padded_floats(const padded *p) {
    return (size_t)p->blocks * (size_t)p->height * (size_t)p->width * (size_t)p->depth;
}

// Copies `count` elements. from_step and to_step are the distances between elements.
static void copy_elements(
    ls_dtype storage, const void *from, size_t from_step, void *to, size_t to_step, size_t count) {
    if (storage == LS_F32)
        for (size_t i = 0; i < count; i++) ((float *)to)[i * to_step] = ((const float *)from)[i * from_step];
    else
        for (size_t i = 0; i < count; i++) ((uint16_t *)to)[i * to_step] = ((const uint16_t *)from)[i * from_step];
}

static inline float value_of(const void *x, ls_dtype storage, size_t i) {
    if (storage == LS_F32) return ((const float *)x)[i];
    return ls_float_from_bf16(((const uint16_t *)x)[i]);
}

static void copy_row(const padded *p, const void *from, int block, int y, float *to) {
    size_t depth = (size_t)p->depth, pixels = (size_t)p->h * (size_t)p->w, pixel = (size_t)y * (size_t)p->w;
    const size_t count = (size_t)(p->left + p->w < p->width ? p->w : p->width - p->left);
    to += (size_t)p->left * depth;
    if (p->plain) {
        for (size_t c = 0; c < depth; c++)
            for (size_t x = 0; x < count; x++) to[x * depth + c] = value_of(from, p->storage, c * pixels + pixel + x);
        return;
    }
    p->kernels->to_floats(ls_cpu_at(from, ((size_t)block * pixels + pixel) * depth, p->storage), to, count * depth);
}

static int has_room(const padded *p) {
    return p->height != p->h || p->width != p->w || p->top != 0 || p->left != 0;
}

static void copy_padded(const padded *p, const void *from, float *to) {
    if (has_room(p)) memset(to, 0, padded_floats(p) * sizeof(float));
    size_t row = (size_t)p->width * (size_t)p->depth;
    for (int block = 0; block < p->blocks; block++, to += (size_t)p->height * row)
        for (int y = 0; y < p->h && p->top + y < p->height; y++)
            copy_row(p, from, block, y, to + (size_t)(p->top + y) * row);
}

// Returns the padded copy, or the tensor itself if the copy would be identical.
static const float *padded_source(const padded *p, const void *from, float *scratch) {
    if (!p->plain && p->storage == LS_F32 && !has_room(p)) return from;
    copy_padded(p, from, scratch);
    return scratch;
}

static const ls_kernels *kernels_of(const ls_conv_plan *plan) {
    return ls_cpu_kernels(plan->base.cpu, plan->block, plan->base.base.desc.attr.conv.storage);
}

static padded source_copy(const ls_conv_plan *plan) {
    const ls_conv_attr *a = &plan->base.base.desc.attr.conv;
    return (padded){ .blocks = plan->parts * plan->src_blocks,
        .depth = plan->depth,
        .h = a->src.h,
        .w = a->src.w,
        .plain = plan->depth < plan->block,
        .kernels = kernels_of(plan),
        .storage = a->storage,
        .top = a->pad_h,
        .left = a->pad_w,
        .height = a->src.h + 2 * a->pad_h,
        .width = a->src.w + 2 * a->pad_w };
}

// One dimension of a phase: the pixels first, first + stride, ... of the source.
typedef struct {
    int count; // number of pixels of the phase
    // taps of the turned filter that meet pixels of the phase: the first, the distance to the next, the number
    int tap, step, taps;
    int from; // pixel of dst that the first tap reads for the first pixel; negative: before dst's first pixel
    int dilation;
} phase;

static phase phase_of(int first, int size, int kernel, int stride, int pad, int dilation) {
    int common = dilation, other = stride;
    for (int rest; other > 0; common = other, other = rest) rest = common % other;
    int tap = kernel - 1; // number in the filter that is not rotated: the last tap reads the lowest pixel of dst
    while (tap >= 0 && (first + pad - tap * dilation) % stride != 0) tap--;
    const phase none = { .count = (size - first + stride - 1) / stride };
    if (tap < 0) return none;
    return (phase){ .count = none.count,
        .tap = kernel - 1 - tap,
        .step = stride / common,
        .taps = tap / (stride / common) + 1,
        .from = (first + pad - tap * dilation) / stride,
        .dilation = dilation / common };
}

// For one dimension: how many pixels before pixel 0 of dst the taps read.
static int before(int kernel, int stride, int pad, int dilation) {
    const int reach = dilation * (kernel - 1) - pad;
    return reach > 0 ? (reach + stride - 1) / stride : 0;
}

static padded gradient_copy(const ls_conv_plan *plan) {
    const ls_conv_attr *a = &plan->base.base.desc.attr.conv;
    padded copy = { .blocks = plan->dst_blocks,
        .depth = plan->dst_depth,
        .h = a->dst.h,
        .w = a->dst.w,
        .plain = plan->dst_depth < plan->block,
        .kernels = kernels_of(plan),
        .storage = a->storage,
        .top = before(a->kernel_h, a->stride_h, a->pad_h, a->dilation),
        .left = before(a->kernel_w, a->stride_w, a->pad_w, a->dilation) };
    copy.height = copy.top + (a->src.h - 1 + a->pad_h) / a->stride_h + 1;
    copy.width = copy.left + (a->src.w - 1 + a->pad_w) / a->stride_w + 1;
    return copy;
}

static size_t map_elements(const ls_conv_plan *plan, ls_nchw shape) { // one block of one sample
    return (size_t)shape.h * (size_t)shape.w * (size_t)plan->block;
}

size_t ls_conv_direct_scratch(const ls_conv_plan *plan) {
    const ls_op_desc *desc = &plan->base.base.desc;
    padded copy = desc->op == LS_OP_CONV_BACKWARD_DATA ? gradient_copy(plan) : source_copy(plan);
    ls_nchw map = desc->op == LS_OP_CONV_BACKWARD_DATA ? desc->attr.conv.src : desc->attr.conv.dst;
    return (ls_cpu_round(padded_floats(&copy) * sizeof(float)) + map_elements(plan, map) * sizeof(float));
}

static float *scratch_of(const ls_conv_run *run, int thread) {
    return (float *)(void *)(run->workspace + run->plan->scratch_at + (size_t)thread * run->plan->scratch_bytes);
}

static float *behind(float *scratch, const padded *copy) {
    return (float *)(void *)((char *)scratch + ls_cpu_round(padded_floats(copy) * sizeof(float)));
}

// Copies one block [h][w][B] to a plain tensor with few channels.
static void block_to_plain(const ls_conv_plan *plan, const void *block, int channels, ls_nchw shape, void *plain) {
    const size_t pixels = (size_t)shape.h * (size_t)shape.w;
    const ls_dtype storage = plan->base.base.desc.attr.conv.storage;
    for (size_t c = 0; c < (size_t)channels; c++)
        copy_elements(storage, ls_cpu_at(block, c, storage), (size_t)plan->block, ls_cpu_at(plain, c * pixels, storage),
            1, pixels);
}

static void plain_to_block(const ls_conv_plan *plan, const void *plain, int channels, ls_nchw shape, void *block) {
    const size_t pixels = (size_t)shape.h * (size_t)shape.w;
    const ls_dtype storage = plan->base.base.desc.attr.conv.storage;
    memset(block, 0, map_elements(plan, shape) * ls_dtype_bytes(storage));
    for (size_t c = 0; c < (size_t)channels; c++)
        copy_elements(storage, ls_cpu_at(plain, c * pixels, storage), 1, ls_cpu_at(block, c, storage),
            (size_t)plan->block, pixels);
}

// Returns the map as one row of pixels if the convolution reads each pixel alone (1x1, stride 1, no padding), else
// unchanged.
static ls_nchw as_rows(const ls_conv_attr *a, ls_nchw shape) {
    const int pixels = ls_conv_taps(a) == 1 && a->stride_h * a->stride_w == 1 && a->pad_h + a->pad_w == 0;
    return pixels ? (ls_nchw){ shape.n, shape.c, 1, shape.h * shape.w } : shape;
}

// Whether the last block has at most half a block of channels.
static int is_half(const ls_conv_plan *plan, int channels) {
    const int last = channels % plan->block;
    return last > 0 && last <= plan->block / 2;
}

// Computes all output blocks of one sample. conv: the arguments common to all blocks. A plain tensor's dst is one
// block.
static void all_blocks(const ls_conv_plan *plan, ls_kernel_conv conv, int channels) {
    const int blocks = (channels + plan->block - 1) / plan->block, part = blocks / plan->parts;
    const size_t source = (size_t)(conv.blocks * conv.height * conv.width * conv.depth);
    for (int b = 0; b < blocks; b += 1 + conv.pair) {
        if (b > 0 && b % part == 0) conv.src += source;
        conv.half = b + 1 == blocks && is_half(plan, channels);
        conv.pair = part - b % part >= 2 && !(b + 2 == blocks && is_half(plan, channels));
        kernels_of(plan)->conv(&conv);
        conv.dst = ls_cpu_at(conv.dst, conv.dst_next * (size_t)(1 + conv.pair), plan->base.base.desc.attr.conv.storage);
        conv.weight += conv.weight_next * (size_t)(1 + conv.pair);
        if (conv.bias) conv.bias += plan->block * (1 + conv.pair);
    }
}

// Kernel arguments for a convolution with stride 1, from the padded copy of a tensor with this many channels to maps of
// this shape.
static ls_kernel_conv kernel_of(
    const ls_conv_run *run, const padded *copy, int channels, const float *src, ls_nchw shape) {
    const ls_conv_plan *plan = run->plan;
    const ls_conv_attr *a = &plan->base.base.desc.attr.conv;
    const int blocks = copy->blocks / plan->parts;
    const ls_nchw rows = as_rows(a, shape);
    const size_t tap = (size_t)(copy->depth * plan->block), block = tap * (size_t)ls_conv_taps(a);
    return (ls_kernel_conv){ .src = src,
        .weight = run->weight,
        .blocks = blocks,
        .depth = copy->depth,
        .last = plan->parts > 1 ? copy->depth : channels - (blocks - 1) * copy->depth,
        .height = copy->height,
        .width = copy->width,
        .top = copy->top,
        .filled = copy->h,
        .p = rows.h,
        .q = rows.w,
        .kernel_h = a->kernel_h,
        .kernel_w = a->kernel_w,
        .stride_h = 1,
        .stride_w = 1,
        .dilation_h = a->dilation,
        .dilation_w = a->dilation,
        .weight_block = block,
        .weight_row = tap * (size_t)a->kernel_w,
        .weight_tap = tap,
        .weight_next = block * (size_t)blocks,
        .dst_row = (size_t)(shape.w * plan->block),
        .dst_step = (size_t)plan->block,
        .dst_next = map_elements(plan, shape) };
}

void ls_conv_direct_forward(void *context, int n, int thread) {
    const ls_conv_run *run = context;
    const ls_conv_plan *plan = run->plan;
    const ls_conv_attr *a = &plan->base.base.desc.attr.conv;
    const padded copy = source_copy(plan);
    float *scratch = scratch_of(run, thread), *map = behind(scratch, &copy);
    const void *from = ls_cpu_at(run->src, (size_t)n * ls_cpu_sample(plan->base.cpu, a->src), a->storage);
    const float *src = padded_source(&copy, from, scratch);
    void *dst = ls_cpu_at(run->dst, (size_t)n * ls_cpu_sample(plan->base.cpu, a->dst), a->storage);
    const int plain = plan->dst_depth < plan->block;
    ls_kernel_conv conv = kernel_of(run, &copy, a->src.c, src, a->dst);
    conv.dst = plain ? map : dst;
    conv.bias = run->bias;
    conv.stride_h = a->stride_h;
    conv.stride_w = a->stride_w;
    all_blocks(plan, conv, a->dst.c);
    if (plain) block_to_plain(plan, map, plan->dst_depth, a->dst, dst);
}

// Adapts the kernel's arguments to a phase. first_h, first_w: the phase's first pixel.
static ls_kernel_conv phase_kernel(
    const ls_conv_plan *plan, const padded *copy, ls_kernel_conv conv, int first_h, int first_w) {
    const ls_conv_attr *a = &plan->base.base.desc.attr.conv;
    const ls_nchw src = as_rows(a, a->src);
    const phase h = phase_of(first_h, src.h, a->kernel_h, a->stride_h, a->pad_h, a->dilation);
    const phase w = phase_of(first_w, src.w, a->kernel_w, a->stride_w, a->pad_w, a->dilation);
    conv.p = h.count;
    conv.q = w.count;
    conv.kernel_h = h.taps;
    conv.kernel_w = w.taps;
    conv.dilation_h = h.dilation;
    conv.dilation_w = w.dilation;
    conv.top = -h.from;
    conv.src += (ptrdiff_t)(((copy->top + h.from) * copy->width + copy->left + w.from) * copy->depth);
    conv.dst = ls_cpu_at(conv.dst, (size_t)first_h * conv.dst_row + (size_t)first_w * conv.dst_step, a->storage);
    conv.weight += (size_t)h.tap * conv.weight_row + (size_t)w.tap * conv.weight_tap;
    conv.weight_row *= (size_t)h.step;
    conv.weight_tap *= (size_t)w.step;
    conv.dst_row *= (size_t)a->stride_h;
    conv.dst_step *= (size_t)a->stride_w;
    return conv;
}

void ls_conv_direct_backward_data(void *context, int n, int thread) {
    const ls_conv_run *run = context;
    const ls_conv_plan *plan = run->plan;
    const ls_conv_attr *a = &plan->base.base.desc.attr.conv;
    const padded copy = gradient_copy(plan);
    float *scratch = scratch_of(run, thread), *map = behind(scratch, &copy);
    const void *from = ls_cpu_at(run->dst, (size_t)n * ls_cpu_sample(plan->base.cpu, a->dst), a->storage);
    const float *gradient = padded_source(&copy, from, scratch);
    void *src = ls_cpu_at(run->src, (size_t)n * ls_cpu_sample(plan->base.cpu, a->src), a->storage);
    const int plain = plan->depth < plan->block;
    ls_kernel_conv conv = kernel_of(run, &copy, a->dst.c, gradient, a->src);
    conv.dst = plain ? map : src;
    for (int first_h = 0; first_h < a->stride_h && first_h < a->src.h; first_h++)
        for (int first_w = 0; first_w < a->stride_w && first_w < a->src.w; first_w++)
            all_blocks(plan, phase_kernel(plan, &copy, conv, first_h, first_w), a->src.c);
    if (plain) block_to_plain(plan, map, plan->depth, a->src, src);
}

// Returns the gradient of dst block kb of sample n. A plain tensor is first converted to a block in map.
static const void *gradient_block(const ls_conv_run *run, int n, int kb, void *map) {
    const ls_conv_plan *plan = run->plan;
    const ls_conv_attr *a = &plan->base.base.desc.attr.conv;
    const void *dst = ls_cpu_at(run->dst, (size_t)n * ls_cpu_sample(plan->base.cpu, a->dst), a->storage);
    if (plan->dst_depth == plan->block) return ls_cpu_at(dst, (size_t)kb * map_elements(plan, a->dst), a->storage);
    plain_to_block(plan, dst, plan->dst_depth, a->dst, map);
    return map;
}

void ls_conv_direct_backward_weight(void *context, int task, int thread) {
    const ls_conv_run *run = context;
    const ls_conv_plan *plan = run->plan;
    const ls_kernels *kernels = kernels_of(plan);
    const ls_conv_attr *a = &plan->base.base.desc.attr.conv;
    padded copy = source_copy(plan);
    float *scratch = scratch_of(run, thread), *map = behind(scratch, &copy);
    float *partial = (float *)(void *)(run->workspace + plan->partial_at) + (size_t)task * plan->weight_floats;
    float *bias = (float *)(void *)(run->workspace + plan->bias_at) + (size_t)task * ls_conv_bias_floats(plan);
    if (run->grad_weight) memset(partial, 0, plan->weight_floats * sizeof(float));
    if (run->grad_bias) memset(bias, 0, ls_conv_bias_floats(plan) * sizeof(float));
    size_t weights = (size_t)(ls_conv_taps(a) * plan->depth * plan->block);
    const int last = plan->parts > 1 ? plan->depth : a->src.c - (plan->src_blocks - 1) * plan->depth;
    const ls_nchw rows = as_rows(a, a->dst);
    ls_kernel_conv_grad conv = { .depth = plan->depth,
        .width = copy.width,
        .p = rows.h,
        .q = rows.w,
        .kernel_h = a->kernel_h,
        .kernel_w = a->kernel_w,
        .stride_h = a->stride_h,
        .stride_w = a->stride_w,
        .dilation = a->dilation };
    for (int n = ls_cpu_share(a->src.n, task, plan->tasks); n < ls_cpu_share(a->src.n, task + 1, plan->tasks); n++) {
        const void *from = ls_cpu_at(run->src, (size_t)n * ls_cpu_sample(plan->base.cpu, a->src), a->storage);
        const float *src = run->grad_weight ? padded_source(&copy, from, scratch) : NULL;
        conv.grad_weight = partial;
        for (int kb = 0; kb < plan->dst_blocks; kb++) {
            conv.grad_dst = gradient_block(run, n, kb, map);
            conv.half = kb + 1 == plan->dst_blocks && is_half(plan, a->dst.c);
            const int first = kb / ls_conv_part_outputs(plan) * plan->src_blocks, end = first + plan->src_blocks;
            for (int cb = first; run->grad_weight && cb < end; cb++, conv.grad_weight += weights) {
                conv.src = src + (size_t)cb * padded_floats(&copy) / (size_t)copy.blocks;
                conv.channels = cb + 1 < end ? plan->depth : last;
                kernels->conv_grad(&conv);
            }
            if (run->grad_bias)
                kernels->column_sums(
                    conv.grad_dst, (size_t)plan->block, a->dst.h * a->dst.w, plan->block, bias + kb * plan->block);
        }
    }
}
