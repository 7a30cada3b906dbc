#include "cli/bench/cost_operators.h"

#include <string.h>
#include "device/cpu/winograd.h"

// --- GPU: launches and passes ---------------------------------------------------------------------

// Launches of an operator, and the arguments (a bit each) that are gone through `passes` times: docs/cuda.md, "Operators".
// What is not in the table is one launch that goes through each tensor once, and so is a batch norm where the device's rule
// has it in one.
typedef struct {
    int launches, passes;
    unsigned again;
} kernels;

#define ARG(NAME) (1U << LS_##NAME)
enum {
    NORM_BACKWARD_AGAIN = ARG(NORM_BACKWARD_SRC) | ARG(NORM_BACKWARD_DST) | ARG(NORM_BACKWARD_GRAD_DST) |
                          ARG(NORM_BACKWARD_GRAD_DST2) | ARG(NORM_BACKWARD_INDEX)
};
static const kernels on_gpu[LS_OP_COUNT] = {
    [LS_OP_NORM_FORWARD] = { 2, 2, ARG(NORM_FORWARD_SRC) },
    [LS_OP_NORM_APPLY] = { 2, 1, 0 },
    [LS_OP_NORM_BACKWARD] = { 2, 2, NORM_BACKWARD_AGAIN },
    [LS_OP_NORM_BACKWARD_APPLY] = { 2, 1, 0 },
    [LS_OP_GROUP_NORM_FORWARD] = { 2, 3, ARG(GROUP_NORM_FORWARD_SRC) },
    [LS_OP_GROUP_NORM_BACKWARD] = { 4, 2, ARG(GROUP_NORM_BACKWARD_SRC) | ARG(GROUP_NORM_BACKWARD_GRAD_DST) },
    [LS_OP_LARS] = { 3, 2, ARG(LARS_GRAD) | ARG(LARS_WEIGHT) },
};
// Beside the product itself.
enum { BIAS_ADDED = 1, BIAS_GRADIENT = 1 };

static int is_depthwise(const ls_conv_attr *a) {
    return a->groups > 1 && a->groups == a->src.c && a->groups == a->dst.c;
}

static int conv_launches(const ls_op_desc *desc) {
    const ls_conv_attr *a = &desc->attr.conv;
    const int own = is_depthwise(a);
    if (desc->op == LS_OP_CONV_FORWARD) return 1 + (a->has_bias && !own ? BIAS_ADDED : 0);
    if (desc->op == LS_OP_CONV_BACKWARD_DATA) return 1;
    const int product = a->bias_only ? 0 : own ? 2 : 1;
    return product + (a->has_bias ? BIAS_GRADIENT : 0);
}

static int linear_launches(const ls_op_desc *desc) {
    const ls_linear_attr *a = &desc->attr.linear;
    if (desc->op != LS_OP_LINEAR_BACKWARD_WEIGHT) return 1; // the bias is part of the product
    if (ls_linear_is_small(a)) return 1;
    return !a->bias_only + (a->has_bias ? BIAS_GRADIENT : 0);
}

// One batch of all matrices: a first pass and a last one of two launches each, three products an iteration.
static int muon_launches(const ls_optimizer_attr *a) {
    return 4 + 3 * a->ns_steps;
}

static int launches_of(const ls_op_desc *desc) {
    switch (ls_op_family_of(desc->op)) {
    case LS_FAMILY_conv:
        return conv_launches(desc);
    case LS_FAMILY_linear:
        return linear_launches(desc);
    default:
        if (desc->op == LS_OP_MUON) return muon_launches(&desc->attr.optimizer);
        return on_gpu[desc->op].launches ? on_gpu[desc->op].launches : 1;
    }
}

// --- GPU: operations ------------------------------------------------------------------------------

// Shares of the published rates. Memory: H100 SXM copies and adds arrays at 3.02 to 3.09 of 3.35 TB/s (published STREAM figures).
// Products: suppositions until a card is measured; cuBLAS attains some 0.7 with large matrices, cuDNN's weight gradients least.
static const double MEMORY_SHARE = 0.9, FORWARD_SHARE = 0.55, DATA_SHARE = 0.5, WEIGHT_SHARE = 0.4, LINEAR_SHARE = 0.5,
                    VECTOR_SHARE = 0.3;
// Output tiles of tensor-core kernels: the smallest width that all libraries have, and a usual tile.
enum { TILE_COLUMNS_LEAST = 32, TILE_ROWS = 128, TILE_COLUMNS = 64, CHANNELS = 8 };
enum { SPLIT = 512 }; // depth from which on a matrix product is split among blocks

static double up(double value, int step) {
    return (double)(((int64_t)value + step - 1) / step * step);
}

// A product of rows x depth by depth x columns as tensor cores take it: operations, and blocks of which each has `splits` parts.
static void set_product(double flops, double rows, double columns, double splits, ls_cost_item *item) {
    item->work = flops * up(columns, TILE_COLUMNS_LEAST) / columns;
    item->blocks = up(rows, TILE_ROWS) / TILE_ROWS * (up(columns, TILE_COLUMNS) / TILE_COLUMNS) * splits;
}

static void set_conv(const ls_op_desc *desc, ls_cost_item *item) {
    const ls_conv_attr *a = &desc->attr.conv;
    if (a->bias_only) return;
    const double src_pixels = (double)a->src.n * a->src.h * a->src.w,
                 dst_pixels = (double)a->dst.n * a->dst.h * a->dst.w;
    const double padded_src = up(a->src.c, CHANNELS) / a->src.c, padded_dst = up(a->dst.c, CHANNELS) / a->dst.c;
    if (desc->op == LS_OP_CONV_FORWARD)
        set_product(item->flops * padded_src, dst_pixels, a->dst.c, 1, item);
    else if (desc->op == LS_OP_CONV_BACKWARD_DATA)
        set_product(item->flops * padded_dst, src_pixels, a->src.c, 1, item);
    else
        set_product(item->flops * padded_src, (double)a->src.c * ls_conv_taps(a), a->dst.c, dst_pixels / SPLIT, item);
    item->rate_share = desc->op == LS_OP_CONV_FORWARD         ? FORWARD_SHARE
                       : desc->op == LS_OP_CONV_BACKWARD_DATA ? DATA_SHARE
                                                              : WEIGHT_SHARE;
    if (a->groups == 1) return;
    item->rate = LS_COST_RATE_VECTOR; // own kernels
    item->rate_share = VECTOR_SHARE;
    item->work = item->flops;
    item->blocks = 0;
}

static void set_linear(const ls_op_desc *desc, ls_cost_item *item) {
    const ls_linear_attr *a = &desc->attr.linear;
    const double samples = a->src.n, inputs = (double)a->src.c * a->src.h * a->src.w, outputs = a->out_features;
    if (desc->op == LS_OP_LINEAR_FORWARD)
        set_product(item->flops, samples, outputs, up(inputs, SPLIT) / SPLIT, item);
    else if (desc->op == LS_OP_LINEAR_BACKWARD_DATA)
        set_product(item->flops, samples, inputs, up(outputs, SPLIT) / SPLIT, item);
    else
        set_product(item->flops, outputs, inputs, up(samples, SPLIT) / SPLIT, item);
    item->rate_share = LINEAR_SHARE;
}

static void set_norm(const ls_op_desc *desc, const ls_cuda_norm_gpu *gpu, ls_cost_item *item) {
    const ls_cuda_norm_form form = ls_cuda_norm_grid_of(desc, gpu).form;
    item->grid_waits = form == LS_CUDA_NORM_IN_ONE_GRID;
    if (form == LS_CUDA_NORM_TWO_LAUNCHES) return;
    item->launches = 1;
    for (int a = 0; a < item->arg_count; a++) item->args[a].passes = 1;
}

void ls_cost_on_gpu(const ls_op_desc *desc, const ls_cuda_norm_gpu *gpu, ls_cost_item *item) {
    const ls_op_family family = ls_op_family_of(desc->op);
    const kernels *k = &on_gpu[desc->op];
    item->algorithm = "";
    item->launches = launches_of(desc);
    for (int a = 0; a < item->arg_count; a++) item->args[a].passes = k->again >> a & 1 ? k->passes : 1;
    item->work = item->flops;
    item->rate = LS_COST_RATE_VECTOR;
    item->rate_share = VECTOR_SHARE;
    item->memory_share = MEMORY_SHARE;
    if (family == LS_FAMILY_norm) set_norm(desc, gpu, item);
    if (desc->op == LS_OP_HEAD) item->args[LS_HEAD_WEIGHT].passes = 2 * desc->attr.loss.src.n; // each block, twice
    if (family != LS_FAMILY_conv && family != LS_FAMILY_linear && desc->op != LS_OP_MUON) return;
    item->rate = desc->op != LS_OP_MUON && ls_op_storage(desc) != LS_F32 ? LS_COST_RATE_HALF : LS_COST_RATE_FP32;
    if (family == LS_FAMILY_conv) set_conv(desc, item);
    if (family == LS_FAMILY_linear) set_linear(desc, item);
}

// --- CPU ------------------------------------------------------------------------------------------

enum { FORWARD, DATA, WEIGHT, ANY };
static const struct {
    ls_op_family family;
    int direction;
    const char *algorithm;
    double rate, memory;
} on_cpu[] = {
#define CPU(family, direction, algorithm, rate, memory) { LS_FAMILY_##family, direction, algorithm, rate, memory },
#include "cli/bench/cost_cpu.def"
};

static int direction_of(ls_op op) {
    switch (op) {
    case LS_OP_CONV_BACKWARD_WEIGHT:
    case LS_OP_LINEAR_BACKWARD_WEIGHT:
        return WEIGHT;
    case LS_OP_CONV_BACKWARD_DATA:
    case LS_OP_LINEAR_BACKWARD_DATA:
    case LS_OP_NORM_BACKWARD:
    case LS_OP_POOL_BACKWARD:
        return DATA;
    default:
        return FORWARD;
    }
}

// Share of the multiplications of direct convolution.
static double products_of(const ls_op_desc *desc, const char *algorithm) {
    const ls_conv_attr *a = &desc->attr.conv;
    if (ls_op_family_of(desc->op) != LS_FAMILY_conv) return 1;
    for (int v = 0; v < LS_WINOGRAD_VARIANTS; v++)
        if (strcmp(algorithm, ls_winograd_name((ls_winograd_variant)v)) == 0)
            return ls_winograd_share(a, desc->op == LS_OP_CONV_BACKWARD_DATA ? a->src : a->dst, (ls_winograd_variant)v);
    return 1;
}

// A GELU's error function and exponential, an element, at the rate of the matrix product; 0: there is none.
static double gelu_work(const ls_op_desc *desc) {
    enum { GELU_FORWARD = 20, GELU_BACKWARD = 40 };
    const ls_op_family family = ls_op_family_of(desc->op);
    if (desc->op == LS_OP_GELU_FORWARD) return GELU_FORWARD * (double)ls_nchw_count(desc->attr.elementwise.shape);
    if (desc->op == LS_OP_GELU_BACKWARD) return GELU_BACKWARD * (double)ls_nchw_count(desc->attr.elementwise.shape);
    if (family != LS_FAMILY_norm || desc->attr.norm.activation != LS_ACTIVATION_GELU) return 0;
    return (direction_of(desc->op) == DATA ? GELU_BACKWARD : GELU_FORWARD) *
           (double)ls_nchw_count(desc->attr.norm.shape);
}

void ls_cost_on_cpu(const ls_op_desc *desc, const char *algorithm, ls_cost_item *item) {
    const ls_op_family family = ls_op_family_of(desc->op);
    const int direction = direction_of(desc->op);
    item->algorithm = algorithm ? algorithm : "";
    item->launches = 1;
    item->work = item->flops * products_of(desc, item->algorithm);
    item->rate = LS_COST_RATE_FP32;
    for (int a = 0; a < item->arg_count; a++) item->args[a].passes = on_gpu[desc->op].again >> a & 1 ? 2 : 1;
    for (size_t i = 0; i < sizeof on_cpu / sizeof *on_cpu; i++) {
        if (on_cpu[i].family != LS_FAMILY_COUNT && on_cpu[i].family != family) continue;
        if (on_cpu[i].direction != ANY && on_cpu[i].direction != direction) continue;
        if (strncmp(item->algorithm, on_cpu[i].algorithm, strlen(on_cpu[i].algorithm)) != 0) continue;
        item->rate_share = on_cpu[i].rate;
        item->work += gelu_work(desc) * on_cpu[i].rate;
        item->memory_share = on_cpu[i].memory;
        return;
    }
}
