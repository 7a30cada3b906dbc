// op_cases.h - the shapes on which every operator is compared, and the cases made of them. A new shape is a row;
// a new operator is a table, a function that visits its cases, and a line in each_case.
#ifndef TESTS_DEVICE_OP_CASES_H
#define TESTS_DEVICE_OP_CASES_H

#include "op_case.h"

typedef void case_visit(void *context, op_case *c);

static inline void visit_and_free(case_visit *visit, void *context, op_case *c) {
    visit(context, c);
    case_free(c);
}

// --- convolution ---------------------------------------------------------------------------------

typedef struct {
    const char *name;
    ls_nchw src;
    int out_channels, kernel, stride, pad, dilation, groups, bias;
} conv_row;

// clang-format off
static const conv_row conv_rows[] = {
    //                             src                  K   R  s  p  d  g  bias
    { "lenet conv1",               { 4, 1, 28, 28 },   32,  5, 1, 2, 1, 1, 1 },
    { "lenet conv2",               { 4, 32, 14, 14 },  64,  5, 1, 2, 1, 1, 1 },
    { "resnet9 prep",              { 2, 3, 32, 32 },   64,  3, 1, 1, 1, 1, 0 },
    { "resnet9 layer1",            { 1, 64, 32, 32 }, 128,  3, 1, 1, 1, 1, 0 },
    { "resnet9 res1",              { 1, 128, 16, 16 }, 128, 3, 1, 1, 1, 1, 0 },
    { "resnet9 layer2",            { 1, 128, 16, 16 }, 256, 3, 1, 1, 1, 1, 0 },
    { "resnet9 layer3",            { 1, 256, 8, 8 },  512,  3, 1, 1, 1, 1, 0 },
    { "resnet9 res3",              { 2, 512, 4, 4 },  512,  3, 1, 1, 1, 1, 0 },
    { "resnet20 stem",             { 3, 3, 32, 32 },   16,  3, 1, 1, 1, 1, 0 },
    { "resnet20 stage 1",          { 3, 16, 32, 32 },  16,  3, 1, 1, 1, 1, 0 },
    { "resnet20 stage 2 first",    { 3, 16, 32, 32 },  32,  3, 2, 1, 1, 1, 0 },
    { "resnet20 stage 2 shortcut", { 3, 16, 32, 32 },  32,  1, 2, 0, 1, 1, 0 },
    { "resnet20 stage 2",          { 3, 32, 16, 16 },  32,  3, 1, 1, 1, 1, 0 },
    { "resnet20 stage 3 first",    { 3, 32, 16, 16 },  64,  3, 2, 1, 1, 1, 0 },
    { "resnet20 stage 3 shortcut", { 3, 32, 16, 16 },  64,  1, 2, 0, 1, 1, 0 },
    { "resnet20 stage 3",          { 3, 64, 8, 8 },    64,  3, 1, 1, 1, 1, 0 },
    { "one of everything",         { 1, 1, 1, 1 },      1,  1, 1, 0, 1, 1, 1 },
    { "1x1 map, padded",           { 5, 10, 1, 1 },    17,  3, 1, 1, 1, 1, 1 },
    { "odd, no padding",           { 2, 3, 7, 9 },      5,  3, 1, 0, 1, 1, 1 },
    { "odd, stride 2",             { 3, 5, 7, 9 },      3,  3, 2, 1, 1, 1, 0 },
    { "odd, stride 2, padding 2",  { 2, 10, 9, 5 },    17,  5, 2, 2, 1, 1, 1 },
    { "stride 3",                  { 2, 3, 11, 10 },    8,  2, 3, 0, 1, 1, 1 },
    { "even kernel",               { 2, 17, 6, 7 },    10,  4, 1, 1, 1, 1, 1 },
    { "dilation 2",                { 2, 8, 9, 11 },    16,  3, 1, 2, 2, 1, 1 },
    { "dilation 2, stride 2",      { 1, 5, 13, 10 },    3,  3, 2, 1, 2, 1, 0 },
    { "groups 2",                  { 2, 16, 8, 8 },    32,  3, 1, 1, 1, 2, 1 },
    { "groups 2, odd channels",    { 2, 10, 7, 5 },     6,  3, 2, 1, 1, 2, 1 },
    { "depthwise",                 { 2, 16, 9, 9 },    16,  3, 1, 1, 1, 16, 1 },
    { "depthwise, stride 2",       { 1, 17, 8, 7 },    17,  3, 2, 1, 1, 17, 0 },
    { "depthwise, two each",       { 2, 5, 6, 6 },     10,  3, 1, 1, 1, 5, 1 },
    { "1x1",                       { 2, 17, 5, 6 },    10,  1, 1, 0, 1, 1, 1 },
    { "1x1, padded",               { 2, 8, 4, 4 },      8,  1, 1, 1, 1, 1, 1 },
    { "1x1, many pixels",          { 3, 17, 19, 21 },  24,  1, 1, 0, 1, 1, 1 },
    { "7x7, stride 2",             { 1, 3, 21, 19 },   16,  7, 2, 3, 1, 1, 1 },
    { "kernel as large as map",    { 3, 16, 4, 4 },    10,  4, 1, 0, 1, 1, 1 },
    { "one channel in and out",    { 4, 1, 12, 12 },    1,  3, 1, 1, 1, 1, 1 },
    { "many samples",              { 37, 16, 6, 5 },   24,  3, 1, 1, 1, 1, 1 },
    { "many samples, 1x1",         { 19, 24, 5, 4 },   16,  1, 2, 0, 1, 1, 1 },
    { "many samples, one channel", { 21, 1, 9, 9 },    16,  5, 1, 2, 1, 1, 1 },
    { "many samples, groups",      { 18, 12, 5, 5 },   12,  3, 1, 1, 1, 3, 1 },
    { "taps only in padding",      { 1, 3, 2, 2 },      8,  5, 1, 4, 2, 1, 0 },
    { "many pixels and outputs",   { 1, 1, 92, 92 },  136,  1, 1, 0, 1, 1, 1 }, // the bias gradient in most parts
    { "dilation 3, groups",        { 5, 6, 9, 8 },      9,  3, 2, 3, 3, 3, 1 },
    // awkward: maps of a pixel, a row, a column; channels about a vector's width; windows mostly in the padding
    { "2x2 on a pixel",            { 1, 9, 1, 1 },      7,  2, 1, 1, 1, 1, 1 },
    { "3x3, padding 2, a pixel",   { 1, 17, 1, 1 },    15,  3, 1, 2, 1, 1, 1 },
    { "5x5 on a pixel",            { 1, 9, 1, 1 },     23,  5, 1, 2, 1, 1, 1 },
    { "5x5, padding 4, a pixel",   { 2, 16, 1, 1 },     8,  5, 1, 4, 1, 1, 0 },
    { "3x3 to a pixel",            { 1, 33, 3, 3 },    31,  3, 1, 0, 1, 1, 1 },
    { "5x5 to a pixel",            { 2, 12, 5, 5 },     9,  5, 1, 0, 1, 1, 0 },
    { "a row",                     { 2, 24, 1, 37 },   16,  3, 1, 1, 1, 1, 1 },
    { "a column",                  { 1, 15, 37, 1 },   25,  3, 1, 1, 1, 1, 0 },
    { "a row, 5x5",                { 1, 17, 1, 13 },    9,  5, 1, 2, 1, 1, 1 },
    { "2x2, padding 1",            { 3, 9, 7, 5 },     12,  2, 1, 1, 1, 1, 1 },
    { "2x2, padding 2",            { 1, 11, 3, 2 },     7,  2, 1, 2, 1, 1, 1 },
    { "2x2, few channels",         { 2, 3, 9, 8 },     24,  2, 1, 0, 1, 1, 1 },
    { "3x3, padding 2, odd",       { 1, 19, 5, 11 },   13,  3, 1, 2, 1, 1, 0 },
    { "3x3, no padding, odd",      { 2, 31, 9, 7 },    33,  3, 1, 0, 1, 1, 1 },
    { "5x5, padding 1, odd",       { 1, 18, 7, 9 },    10,  5, 1, 1, 1, 1, 1 },
    { "1x1, padding 2",            { 2, 9, 3, 3 },      9,  1, 1, 2, 1, 1, 1 },
    { "to few channels",           { 3, 40, 6, 5 },     4,  3, 1, 1, 1, 1, 1 },
    { "to one channel, 5x5",       { 2, 16, 7, 6 },     1,  5, 1, 2, 1, 1, 1 },
    { "from four channels",        { 1, 4, 5, 7 },     26,  3, 1, 1, 1, 1, 1 },
    { "five channels",             { 1, 5, 31, 31 },    5,  3, 1, 1, 1, 1, 1 },
    { "31x31, 24 channels",        { 1, 24, 31, 31 },  64,  3, 1, 1, 1, 1, 0 },
    { "3x3 map, 256 channels",     { 2, 256, 3, 3 },  256,  3, 1, 1, 1, 1, 0 },
    { "groups, 1x1",               { 1, 15, 4, 3 },    10,  1, 1, 0, 1, 5, 1 },
    { "groups, 2x2, padding 1",    { 2, 18, 5, 3 },    27,  2, 1, 1, 1, 9, 0 },
    { "groups, 5x5, dilation 2",   { 1, 8, 9, 11 },     8,  5, 1, 4, 2, 2, 1 },
    { "dilation 2, 2x2, a row",    { 2, 10, 1, 9 },     9,  2, 1, 1, 2, 1, 1 },
    // lane by lane: blocks that groups cross, strides that leave columns over, windows mostly in the padding
    { "depthwise, many samples",   { 19, 24, 5, 6 },   24,  3, 1, 1, 1, 24, 0 },
    { "depthwise, odd, stride 2",  { 2, 33, 9, 7 },    33,  3, 2, 1, 1, 33, 1 },
    { "depthwise, even, stride 2", { 2, 16, 8, 10 },   16,  3, 2, 1, 1, 16, 0 },
    { "depthwise, stride 3",       { 1, 20, 11, 10 },  20,  3, 3, 1, 1, 20, 1 },
    { "depthwise, stride 4",       { 2, 9, 10, 9 },     9,  2, 4, 0, 1, 9, 1 },
    { "depthwise, stride 5",       { 1, 5, 12, 14 },    5,  3, 5, 0, 1, 5, 0 },
    { "depthwise, dilation 2",     { 1, 17, 11, 9 },   17,  3, 1, 2, 2, 17, 0 },
    { "depthwise, dilation 3",     { 2, 16, 13, 12 },  16,  3, 2, 3, 3, 16, 1 },
    { "depthwise, 5x5",            { 2, 24, 9, 18 },   24,  5, 1, 2, 1, 24, 1 },
    { "depthwise, 5x5, stride 2",  { 1, 40, 11, 7 },   40,  5, 2, 2, 1, 40, 0 },
    { "depthwise, 7x7",            { 1, 32, 13, 9 },   32,  7, 1, 3, 1, 32, 1 },
    { "depthwise, 7x7, dilation",  { 1, 10, 9, 14 },   10,  7, 1, 6, 2, 10, 0 },
    { "depthwise, 9x9",            { 1, 12, 10, 11 },  12,  9, 1, 4, 1, 12, 0 },
    { "depthwise, 4x4",            { 2, 13, 7, 9 },    13,  4, 1, 1, 1, 13, 1 },
    { "depthwise, 1x1",            { 2, 19, 5, 3 },    19,  1, 1, 0, 1, 19, 1 },
    { "depthwise, 1x1, padded",    { 1, 8, 6, 5 },      8,  1, 2, 1, 1, 8, 0 },
    { "depthwise on a pixel",      { 3, 18, 1, 1 },    18,  3, 1, 1, 1, 18, 1 },
    { "depthwise, a row",          { 2, 16, 1, 23 },   16,  3, 1, 1, 1, 16, 0 },
    { "depthwise, a column",       { 1, 24, 19, 1 },   24,  3, 1, 1, 1, 24, 1 },
    { "depthwise, padding 2",      { 1, 16, 6, 5 },    16,  3, 1, 2, 1, 16, 0 },
    { "depthwise, padding 5",      { 1, 9, 5, 4 },      9,  3, 1, 5, 1, 9, 1 },
    { "depthwise, padding 4 by 3", { 2, 16, 3, 4 },    16,  3, 3, 4, 1, 16, 0 },
    { "depthwise, no padding",     { 2, 31, 9, 9 },    31,  3, 1, 0, 1, 31, 1 },
    { "depthwise to a pixel",      { 2, 48, 7, 7 },    48,  7, 1, 0, 1, 48, 1 },
    { "depthwise, 31x31",          { 1, 16, 31, 31 },  16,  3, 1, 1, 1, 16, 0 },
    { "depthwise, four channels",  { 3, 4, 9, 8 },      4,  3, 1, 1, 1, 4, 1 },
    { "depthwise, three channels", { 2, 3, 11, 9 },     3,  5, 2, 2, 1, 3, 0 },
    { "depthwise, three each",     { 2, 6, 7, 8 },     18,  3, 2, 1, 1, 6, 1 },
    { "depthwise, few to many",    { 2, 4, 6, 6 },     16,  3, 1, 1, 1, 4, 1 },
    { "groups of 2",               { 2, 24, 7, 6 },    24,  3, 1, 1, 1, 12, 1 },
    { "groups of 4, 32 of them",   { 1, 128, 6, 6 },  128,  3, 1, 1, 1, 32, 0 },
    { "groups of 3",               { 2, 27, 5, 7 },    27,  3, 1, 1, 1, 9, 1 },
    { "groups of 5 to 7, 1x1",     { 2, 40, 4, 5 },    56,  1, 1, 0, 1, 8, 0 },
    { "groups of 12 to 20",        { 2, 24, 6, 5 },    40,  3, 1, 1, 1, 2, 1 },
    { "groups of 20 to 4",         { 2, 60, 6, 5 },    12,  3, 2, 1, 1, 3, 0 },
    { "groups of 16 to 24",        { 2, 32, 8, 7 },    48,  3, 1, 1, 1, 2, 0 },
    { "groups of 16",              { 3, 48, 9, 8 },    48,  3, 1, 1, 1, 3, 1 },
    { "groups of 16, 1x1",         { 2, 64, 5, 5 },    64,  1, 1, 0, 1, 4, 1 },
    { "groups of 16, stride 2",    { 2, 32, 11, 9 },   64,  3, 2, 2, 2, 2, 1 },
    { "groups of 32, 5x5",         { 1, 64, 9, 8 },    64,  5, 1, 2, 1, 2, 1 },
    { "more pixels than blocks",   { 17, 1, 64, 64 },   8,  3, 1, 1, 1, 1, 0 },
    { "groups, few channels",      { 2, 4, 7, 7 },      4,  3, 1, 1, 1, 2, 1 }
};

// What is no square: rows beyond the columns, of kernel, padding and stride.
static const struct {
    conv_row columns;
    int more_kernel, more_pad, more_stride;
} oblong_conv_rows[] = {
    { { "3x1",                       { 2, 16, 9, 7 },    24,  1, 1, 0, 1, 1, 1 }, 2, 1, 0 },
    { { "1x3",                       { 2, 24, 7, 9 },    16,  3, 1, 1, 1, 1, 1 }, -2, -1, 0 },
    { { "3x5, padding 1x2",          { 2, 10, 9, 11 },   17,  5, 1, 2, 1, 1, 1 }, -2, -1, 0 },
    { { "5x3, one channel",          { 3, 1, 11, 9 },    16,  3, 1, 1, 1, 1, 1 }, 2, 1, 0 },
    { { "3x3, stride 2x1",           { 2, 16, 9, 8 },    16,  3, 1, 1, 1, 1, 0 }, 0, 0, 1 },
    { { "3x3, stride 1x2",           { 2, 9, 8, 11 },    12,  3, 2, 1, 1, 1, 1 }, 0, 0, -1 },
    { { "3x3, padding 0x1",          { 3, 16, 7, 6 },    16,  3, 1, 1, 1, 1, 1 }, 0, -1, 0 },
    { { "4x2, stride 3x2, groups",   { 2, 12, 13, 9 },   18,  2, 2, 0, 1, 3, 1 }, 2, 1, 1 },
    { { "2x7, dilation 2, few",      { 2, 3, 9, 19 },     8,  7, 2, 3, 2, 1, 1 }, -5, -2, -1 },
    { { "1x5 to a pixel",            { 2, 17, 1, 5 },    10,  5, 1, 0, 1, 1, 1 }, -4, 0, 0 },
    { { "depthwise, 7x1",            { 1, 17, 12, 5 },   17,  1, 1, 0, 1, 17, 0 }, 6, 3, 0 },
    { { "depthwise, 1x5",            { 2, 24, 6, 13 },   24,  5, 1, 2, 1, 24, 1 }, -4, -2, 0 },
    { { "depthwise, 3x5, stride 2x1", { 2, 19, 9, 11 },  19,  5, 1, 2, 1, 19, 1 }, -2, -1, 1 },
    { { "depthwise, stride 1x3",     { 1, 32, 6, 11 },   32,  3, 3, 1, 1, 32, 0 }, 0, 0, -2 },
    { { "groups of 2, 2x4, stride 3x1", { 2, 18, 9, 8 }, 18,  4, 1, 2, 1, 9, 1 }, -2, -1, 2 },
    { { "depthwise, 33x1",           { 1, 6, 35, 2 },     6,  1, 1, 0, 1, 6, 0 }, 32, 0, 0 },
};
// clang-format on

static inline ls_conv_attr oblong_conv_attr(
    const conv_row *r, int more_kernel, int more_pad, int more_stride, ls_dtype storage) {
    ls_conv_attr a = { .src = r->src,
        .kernel_h = r->kernel + more_kernel,
        .kernel_w = r->kernel,
        .stride_h = r->stride + more_stride,
        .stride_w = r->stride,
        .pad_h = r->pad + more_pad,
        .pad_w = r->pad,
        .dilation = r->dilation,
        .groups = r->groups,
        .has_bias = r->bias,
        .storage = storage };
    int rows = r->dilation * (a.kernel_h - 1) + 1, columns = r->dilation * (a.kernel_w - 1) + 1;
    a.dst = (ls_nchw){ r->src.n, r->out_channels, (r->src.h + 2 * a.pad_h - rows) / a.stride_h + 1,
        (r->src.w + 2 * a.pad_w - columns) / a.stride_w + 1 };
    return a;
}

static inline ls_conv_attr conv_attr(const conv_row *r, ls_dtype storage) {
    return oblong_conv_attr(r, 0, 0, 0, storage);
}

static inline void conv_case(const char *name, ls_conv_attr a, case_visit *visit, void *context) {
    int taps = ls_conv_taps(&a), group_in = a.src.c / a.groups, group_out = a.dst.c / a.groups;
    ls_param_shape weight = { LS_PARAM_CONV, { a.dst.c, group_in, a.kernel_h, a.kernel_w }, a.groups };
    double pixels = (double)a.dst.n * a.dst.h * a.dst.w;

    op_case *c = case_new(LS_OP_CONV_FORWARD, a.storage, name, "");
    c->desc.attr.conv = a;
    case_activation(c, LS_CONV_FORWARD_SRC, USE_IN, a.src, 0);
    case_param(c, LS_CONV_FORWARD_WEIGHT, ARG_WORKING, USE_IN, weight, 0);
    if (a.has_bias) case_vector(c, LS_CONV_FORWARD_BIAS, USE_IN, a.dst.c, 0);
    case_activation(c, LS_CONV_FORWARD_DST, USE_OUT, a.dst, sum_tolerance(taps * group_in + 1));
    visit_and_free(visit, context, c);

    c = case_new(LS_OP_CONV_BACKWARD_DATA, a.storage, name, "");
    c->desc.attr.conv = a;
    case_activation(c, LS_CONV_BACKWARD_DATA_GRAD_DST, USE_IN, a.dst, 0);
    case_param(c, LS_CONV_BACKWARD_DATA_WEIGHT, ARG_WORKING, USE_IN, weight, 0);
    case_activation(c, LS_CONV_BACKWARD_DATA_GRAD_SRC, USE_OUT, a.src, sum_tolerance(taps * group_out));
    visit_and_free(visit, context, c);

    c = case_new(LS_OP_CONV_BACKWARD_WEIGHT, a.storage, name, "");
    c->desc.attr.conv = a;
    case_activation(c, LS_CONV_BACKWARD_WEIGHT_SRC, USE_IN, a.src, 0);
    case_activation(c, LS_CONV_BACKWARD_WEIGHT_GRAD_DST, USE_IN, a.dst, 0);
    case_param(c, LS_CONV_BACKWARD_WEIGHT_GRAD_WEIGHT, ARG_PARAM, USE_UPDATE, weight, sum_tolerance(pixels + 1));
    if (a.storage != LS_F32) { // zero before and, once it was added to the other part, again
        c->desc.attr.conv.rounds = 1;
        op_arg *rounded = case_param(c, LS_CONV_BACKWARD_WEIGHT_GRAD_ROUNDED, ARG_WORKING, USE_IN, weight, 0);
        memset(rounded->host, 0, rounded->count * sizeof(float));
    }
    if (a.has_bias) case_vector(c, LS_CONV_BACKWARD_WEIGHT_GRAD_BIAS, USE_UPDATE, a.dst.c, sum_tolerance(pixels + 1));
    visit_and_free(visit, context, c);
    if (!a.has_bias) return;

    c = case_new(LS_OP_CONV_BACKWARD_WEIGHT, a.storage, name, "bias only");
    c->desc.attr.conv = a;
    c->desc.attr.conv.bias_only = 1;
    case_activation(c, LS_CONV_BACKWARD_WEIGHT_SRC, USE_IN, a.src, 0);
    case_activation(c, LS_CONV_BACKWARD_WEIGHT_GRAD_DST, USE_IN, a.dst, 0);
    case_vector(c, LS_CONV_BACKWARD_WEIGHT_GRAD_BIAS, USE_UPDATE, a.dst.c, sum_tolerance(pixels + 1));
    visit_and_free(visit, context, c);
}

static inline void conv_cases(ls_dtype storage, case_visit *visit, void *context) {
    for (size_t i = 0; i < sizeof conv_rows / sizeof *conv_rows; i++)
        conv_case(conv_rows[i].name, conv_attr(&conv_rows[i], storage), visit, context);
    for (size_t i = 0; i < sizeof oblong_conv_rows / sizeof *oblong_conv_rows; i++)
        conv_case(oblong_conv_rows[i].columns.name,
            oblong_conv_attr(&oblong_conv_rows[i].columns, oblong_conv_rows[i].more_kernel,
                oblong_conv_rows[i].more_pad, oblong_conv_rows[i].more_stride, storage),
            visit, context);
}

// --- linear --------------------------------------------------------------------------------------

static const struct {
    const char *name;
    ls_nchw src;
    int outputs, bias;
} linear_rows[] = {
    { "lenet fc1", { 4, 64, 7, 7 }, 128, 1 },
    { "lenet fc2", { 4, 128, 1, 1 }, 10, 1 },
    { "resnet9 head", { 4, 512, 1, 1 }, 10, 0 },
    { "resnet20 head", { 4, 64, 1, 1 }, 10, 1 },
    { "one of everything", { 1, 1, 1, 1 }, 1, 1 },
    { "batch 1, odd", { 1, 17, 1, 1 }, 5, 1 },
    { "odd map", { 3, 5, 3, 7 }, 17, 1 },
    { "odd map, no bias", { 7, 10, 2, 1 }, 3, 0 },
    { "many samples", { 130, 20, 1, 1 }, 33, 1 },
    { "many outputs", { 3, 9, 1, 1 }, 300, 1 },
    { "a chunk of depth and more", { 41, 31, 3, 3 }, 70, 1 },
};

static inline void linear_cases(ls_dtype storage, case_visit *visit, void *context) {
    for (size_t i = 0; i < sizeof linear_rows / sizeof *linear_rows; i++) {
        ls_linear_attr a = { .src = linear_rows[i].src,
            .out_features = linear_rows[i].outputs,
            .has_bias = linear_rows[i].bias,
            .storage = storage };
        const char *name = linear_rows[i].name;
        ls_param_shape weight = { LS_PARAM_LINEAR, { a.out_features, a.src.c, a.src.h, a.src.w }, 1 };
        ls_param_shape bias = { LS_PARAM_VECTOR, { a.out_features, 1, 1, 1 }, 1 };
        ls_nchw dst = { a.src.n, a.out_features, 1, 1 };
        double inputs = (double)a.src.c * a.src.h * a.src.w;

        op_case *c = case_new(LS_OP_LINEAR_FORWARD, storage, name, "");
        c->desc.attr.linear = a;
        case_activation(c, LS_LINEAR_FORWARD_SRC, USE_IN, a.src, 0);
        case_param(c, LS_LINEAR_FORWARD_WEIGHT, ARG_WORKING, USE_IN, weight, 0);
        if (a.has_bias) case_param(c, LS_LINEAR_FORWARD_BIAS, ARG_WORKING, USE_IN, bias, 0);
        case_activation(c, LS_LINEAR_FORWARD_DST, USE_OUT, dst, sum_tolerance(inputs + 1));
        visit_and_free(visit, context, c);

        if (a.has_bias) {
            c = case_new(LS_OP_LINEAR_FORWARD, storage, name, "relu");
            c->desc.attr.linear = a;
            c->desc.attr.linear.relu = 1;
            case_activation(c, LS_LINEAR_FORWARD_SRC, USE_IN, a.src, 0);
            case_param(c, LS_LINEAR_FORWARD_WEIGHT, ARG_WORKING, USE_IN, weight, 0);
            case_param(c, LS_LINEAR_FORWARD_BIAS, ARG_WORKING, USE_IN, bias, 0);
            case_activation(c, LS_LINEAR_FORWARD_DST, USE_OUT, dst, sum_tolerance(inputs + 1));
            visit_and_free(visit, context, c);
        }

        c = case_new(LS_OP_LINEAR_BACKWARD_DATA, storage, name, "");
        c->desc.attr.linear = a;
        case_activation(c, LS_LINEAR_BACKWARD_DATA_GRAD_DST, USE_IN, dst, 0);
        case_param(c, LS_LINEAR_BACKWARD_DATA_WEIGHT, ARG_WORKING, USE_IN, weight, 0);
        case_activation(c, LS_LINEAR_BACKWARD_DATA_GRAD_SRC, USE_OUT, a.src, sum_tolerance(a.out_features));
        visit_and_free(visit, context, c);

        c = case_new(LS_OP_LINEAR_BACKWARD_WEIGHT, storage, name, "");
        c->desc.attr.linear = a;
        case_activation(c, LS_LINEAR_BACKWARD_WEIGHT_SRC, USE_IN, a.src, 0);
        case_activation(c, LS_LINEAR_BACKWARD_WEIGHT_GRAD_DST, USE_IN, dst, 0);
        case_param(c, LS_LINEAR_BACKWARD_WEIGHT_GRAD_WEIGHT, ARG_PARAM, USE_UPDATE, weight, sum_tolerance(a.src.n + 1));
        if (a.has_bias) {
            case_vector(c, LS_LINEAR_BACKWARD_WEIGHT_GRAD_BIAS, USE_UPDATE, a.out_features, sum_tolerance(a.src.n + 1));
        }
        visit_and_free(visit, context, c);
        if (!a.has_bias) continue;

        c = case_new(LS_OP_LINEAR_BACKWARD_WEIGHT, storage, name, "bias only");
        c->desc.attr.linear = a;
        c->desc.attr.linear.bias_only = 1;
        case_activation(c, LS_LINEAR_BACKWARD_WEIGHT_SRC, USE_IN, a.src, 0);
        case_activation(c, LS_LINEAR_BACKWARD_WEIGHT_GRAD_DST, USE_IN, dst, 0);
        case_vector(c, LS_LINEAR_BACKWARD_WEIGHT_GRAD_BIAS, USE_UPDATE, a.out_features, sum_tolerance(a.src.n + 1));
        visit_and_free(visit, context, c);
    }
}

// --- batch norm ----------------------------------------------------------------------------------

static const struct {
    const char *name;
    ls_nchw shape;
} norm_rows[] = {
    { "resnet9 prep", { 2, 64, 32, 32 } },
    { "resnet9 layer1", { 2, 128, 32, 32 } },
    { "resnet9 layer2", { 2, 256, 16, 16 } },
    { "resnet9 layer3", { 2, 512, 8, 8 } },
    { "resnet9 res3", { 2, 512, 4, 4 } },
    { "resnet20 stage 1", { 3, 16, 32, 32 } },
    { "resnet20 stage 2", { 3, 32, 16, 16 } },
    { "resnet20 stage 3", { 3, 64, 8, 8 } },
    { "1x1 map", { 4, 10, 1, 1 } },
    { "two values", { 2, 3, 1, 1 } },
    { "many samples", { 41, 20, 13, 13 } },
    { "batch 1, one channel", { 1, 1, 3, 5 } },
    { "odd", { 3, 17, 5, 7 } },
    { "odd channels", { 2, 5, 4, 1 } },
};

// Values of both signs around +1 and -1, so that no variance is near 0,
// where the division would enlarge every rounding.
static inline void fill_spread(op_case *c, op_arg *arg) {
    float *values = arg->host;
    size_t plane = (size_t)arg->shape.h * (size_t)arg->shape.w, channels = (size_t)arg->shape.c;
    for (size_t i = 0; i < arg->count; i++) {
        size_t at = i / plane / channels * plane + i % plane, channel = i / plane % channels;
        values[i] = 0.5F * case_random(c) + (at % 2 ? 1.0F : -1.0F) + 0.25F * (float)(channel % 4);
    }
}

// Single-pass sums of squares, all of one sign, lose up to sqrt(count) * 2^-24
// of themselves; values are up to 4 in size.
static inline double norm_tolerance(double count) {
    return 4 * EPS32 * (16 + sqrt(count));
}

// Few different values, at each channel's own distance: equal ones in a window are frequent, and the first of them must
// win; different ones are so far apart that no rounding changes the winner.
static inline void fill_steps(op_case *c, op_arg *arg) {
    float *values = arg->host;
    size_t plane = (size_t)arg->shape.h * (size_t)arg->shape.w, channels = (size_t)arg->shape.c;
    for (size_t i = 0; i < arg->count; i++)
        values[i] = floorf(4 * case_random(c)) / 4 + (float)(i / plane % channels % 4);
}

// All ways to fuse: activation, residual, two gradients; gelu goes without residual.
enum { NORM_FLAGS = 10, NORM_FROZEN_ROW = 12 }; // the row that is tried with frozen weights, too

static inline ls_norm_attr norm_attr(size_t row, int flags, ls_dtype storage) {
    int gelu = flags >= 8;
    return (ls_norm_attr){ .shape = norm_rows[row].shape,
        .eps = 1e-5F,
        .activation = gelu        ? LS_ACTIVATION_GELU
                      : flags & 1 ? LS_ACTIVATION_RELU
                                  : LS_ACTIVATION_NONE,
        .residual = !gelu && flags >> 1 & 1,
        .two_grads = gelu ? flags & 1 : flags >> 2 & 1,
        .storage = storage };
}

static inline const char *activation_name(ls_activation kind) {
    static const char *const names[LS_ACTIVATION_COUNT] = {
        "",
        " relu",
#define ACTIVATION(NAME, name, zero, text) " " #name,
#include "config/activations.def"
    };
    return names[kind];
}

static inline void norm_variant(char text[64], const char *what, const ls_norm_attr *a) {
    snprintf(text, 64, "%s%s%s%s%s%s", what,
        a->activation == LS_ACTIVATION_RELU ? " relu" : activation_name(a->activation), a->pool_kernel ? " pool" : "",
        a->residual ? " residual" : "", a->adds_last ? " last" : "", a->two_grads ? " two" : "");
}

// again: the forward pass for the second time, whose statistics were handed on by the first
static inline void norm_forward_case(const char *name, ls_norm_attr a, int again, case_visit *visit, void *context) {
    char variant[64];
    double tolerance = norm_tolerance((double)a.shape.n * a.shape.h * a.shape.w);
    norm_variant(variant, again ? " again" : "", &a);
    op_case *c = case_new(LS_OP_NORM_FORWARD, a.storage, name, variant);
    c->desc.attr.norm = a;
    fill_spread(c, case_activation(c, LS_NORM_FORWARD_SRC, USE_IN, a.shape, 0));
    if (a.residual) case_activation(c, LS_NORM_FORWARD_RESIDUAL, USE_IN, a.shape, 0);
    fill_uniform(c, case_vector(c, LS_NORM_FORWARD_GAMMA, USE_IN, a.shape.c, 0), -1.5F, 1.5F);
    case_vector(c, LS_NORM_FORWARD_BETA, USE_IN, a.shape.c, 0);
    case_param(c, LS_NORM_FORWARD_SAVED, ARG_SAVED, USE_OUT, vector_shape(a.shape.c), tolerance);
    if (!again) case_vector(c, LS_NORM_FORWARD_SUM_MEAN, USE_UPDATE, a.shape.c, tolerance);
    if (!again) case_vector(c, LS_NORM_FORWARD_SUM_VAR, USE_UPDATE, a.shape.c, tolerance);
    case_activation(c, LS_NORM_FORWARD_DST, USE_OUT, a.pool_kernel ? a.pooled : a.shape, tolerance);
    if (a.pool_kernel) case_set(c, LS_NORM_FORWARD_INDEX, ARG_INDEX, USE_OUT, 1, 1);
    visit_and_free(visit, context, c);
}

static inline void norm_inference_case(const char *name, ls_norm_attr a, case_visit *visit, void *context) {
    char variant[64];
    norm_variant(variant, "", &a);
    op_case *c = case_new(LS_OP_NORM_INFERENCE, a.storage, name, variant);
    c->desc.attr.norm = a;
    case_activation(c, LS_NORM_INFERENCE_SRC, USE_IN, a.shape, 0);
    if (a.residual) case_activation(c, LS_NORM_INFERENCE_RESIDUAL, USE_IN, a.shape, 0);
    fill_uniform(c, case_vector(c, LS_NORM_INFERENCE_GAMMA, USE_IN, a.shape.c, 0), -1.5F, 1.5F);
    case_vector(c, LS_NORM_INFERENCE_BETA, USE_IN, a.shape.c, 0);
    case_vector(c, LS_NORM_INFERENCE_MEAN, USE_IN, a.shape.c, 0);
    fill_uniform(c, case_vector(c, LS_NORM_INFERENCE_VAR, USE_IN, a.shape.c, 0), 0.25F, 2.0F);
    case_activation(c, LS_NORM_INFERENCE_DST, USE_OUT, a.pool_kernel ? a.pooled : a.shape, norm_tolerance(1));
    visit_and_free(visit, context, c);
}

// beta, and what a relu left of y = (src - m) * r * gamma + beta: the device may compute y again. Where its sign hangs on
// roundings there is no gradient.
static inline void norm_relu_of_src(op_case *c, const ls_norm_attr *a, double gamma_max) {
    const float *src = c->args[LS_NORM_BACKWARD_SRC].host, *saved = c->args[LS_NORM_BACKWARD_SAVED].host;
    const float *gamma = c->args[LS_NORM_BACKWARD_GAMMA].host;
    const float *beta = case_vector(c, LS_NORM_BACKWARD_BETA, USE_IN, a->shape.c, 0)->host;
    op_arg *dst = &c->args[LS_NORM_BACKWARD_DST];
    float *values = dst->host, *grad = c->args[LS_NORM_BACKWARD_GRAD_DST].host;
    float *grad2 = c->args[LS_NORM_BACKWARD_GRAD_DST2].host;
    size_t plane = (size_t)a->shape.h * (size_t)a->shape.w, channels = (size_t)a->shape.c;
    double unsure = 8 * gamma_max * (a->storage == LS_BF16 ? 0x1p-8 : a->storage == LS_F16 ? 0x1p-11 : 0x1p-20);
    for (size_t i = 0; i < dst->count; i++) {
        size_t k = i / plane % channels;
        double y =
            ((double)src[i] - (double)saved[k]) * (double)saved[channels + k] * (double)gamma[k] + (double)beta[k];
        values[i] = y > 0 ? (float)y : 0;
        if (fabs(y) > unsure) continue;
        grad[i] = 0;
        if (grad2) grad2[i] = 0;
    }
}

enum {
    NORM_ALL,
    NORM_GAMMA_FROZEN,
    NORM_BETA_FROZEN,
    NORM_RELU_OF_DST,
    NORM_WITHOUT_DST,
    NORM_STORED,
    NORM_STORED_FROZEN
};

// MEAN and VAR that stand for what SAVED has, which is absent then.
static inline void norm_stored_of_saved(op_case *c, const ls_norm_attr *a) {
    const float *saved = c->args[LS_NORM_BACKWARD_SAVED].host;
    float *mean = case_vector(c, LS_NORM_BACKWARD_MEAN, USE_IN, a->shape.c, 0)->host;
    float *var = case_vector(c, LS_NORM_BACKWARD_VAR, USE_IN, a->shape.c, 0)->host;
    for (int k = 0; k < a->shape.c; k++) {
        const double r = (double)saved[a->shape.c + k];
        mean[k] = saved[k];
        var[k] = (float)(1 / (r * r) - (double)a->eps);
    }
    c->args[LS_NORM_BACKWARD_SAVED].kind = ARG_ABSENT;
}

static inline void norm_backward_case(const char *name, ls_norm_attr a, int frozen, case_visit *visit, void *context) {
    static const char *const what[] = { "", " gamma frozen", " beta frozen", " dst", " without dst", " stored",
        " stored, all frozen" };
    char variant[64];
    double count = (double)a.shape.n * a.shape.h * a.shape.w;
    norm_variant(variant, what[frozen], &a);
    op_case *c = case_new(LS_OP_NORM_BACKWARD, a.storage, name, variant);
    a.stored = frozen >= NORM_STORED;
    c->desc.attr.norm = a;
    ls_nchw dst_shape = a.pool_kernel ? a.pooled : a.shape;
    op_arg *src = case_activation(c, LS_NORM_BACKWARD_SRC, USE_IN, a.shape, 0);
    a.pool_kernel ? fill_steps(c, src) : fill_spread(c, src);
    if (a.activation == LS_ACTIVATION_RELU && !a.pool_kernel) {
        op_arg *dst = case_activation(c, LS_NORM_BACKWARD_DST, USE_IN, a.shape, 0);
        float *values = dst->host; // as a ReLU leaves them: exact zeros and positive values
        for (size_t i = 0; i < dst->count; i++) values[i] = values[i] > 0 ? values[i] : 0;
    }
    case_activation(c, LS_NORM_BACKWARD_GRAD_DST, USE_IN, dst_shape, 0);
    if (a.two_grads) case_activation(c, LS_NORM_BACKWARD_GRAD_DST2, USE_IN, dst_shape, 0);
    fill_uniform(c, case_vector(c, LS_NORM_BACKWARD_GAMMA, USE_IN, a.shape.c, 0), -1.5F, 1.5F);
    if (a.activation > LS_ACTIVATION_RELU) case_vector(c, LS_NORM_BACKWARD_BETA, USE_IN, a.shape.c, 0);
    float *saved = case_param(c, LS_NORM_BACKWARD_SAVED, ARG_SAVED, USE_IN, vector_shape(a.shape.c), 0)->host;
    for (int k = 0; k < a.shape.c; k++) saved[a.shape.c + k] = 0.9F + 0.2F * saved[a.shape.c + k];
    if (a.activation == LS_ACTIVATION_RELU && !a.pool_kernel && !a.residual && frozen != NORM_RELU_OF_DST)
        norm_relu_of_src(c, &a, 1.5 * 1.1);
    if (a.stored) norm_stored_of_saved(c, &a);
    if (frozen == NORM_WITHOUT_DST) c->args[LS_NORM_BACKWARD_DST].kind = ARG_ABSENT;
    // windows: how many gradients an element can be given
    double steps = a.pool_kernel ? ceil((double)a.pool_kernel / a.pool_stride) : 1, windows = steps * steps;
    case_activation(c, LS_NORM_BACKWARD_GRAD_SRC, USE_OUT, a.shape, windows * norm_tolerance(count));
    if (a.residual) case_activation(c, LS_NORM_BACKWARD_GRAD_RESIDUAL, USE_OUT, a.shape, windows * EPS32);
    // terms are up to 2 (two gradients) times 2.9 (normalised values)
    if (frozen != NORM_GAMMA_FROZEN && frozen != NORM_STORED_FROZEN)
        case_vector(c, LS_NORM_BACKWARD_GRAD_GAMMA, USE_UPDATE, a.shape.c, 6 * windows * sum_tolerance(count + 1));
    if (frozen != NORM_BETA_FROZEN && frozen != NORM_STORED_FROZEN)
        case_vector(c, LS_NORM_BACKWARD_GRAD_BETA, USE_UPDATE, a.shape.c, 2 * windows * sum_tolerance(count + 1));
    if (a.pool_kernel) { // the index is made by a forward run, see op_harness.h
        case_set(c, LS_NORM_BACKWARD_INDEX, ARG_INDEX, USE_OUT, 1, 1);
        c->pool_src = case_memory(src->count * sizeof(float));
        for (size_t i = 0; i < src->count; i++) c->pool_src[i] = floorf(4 * case_random(c)) / 4;
    }
    visit_and_free(visit, context, c);
}

static inline void norm_cases(ls_dtype storage, case_visit *visit, void *context) {
    for (size_t i = 0; i < sizeof norm_rows / sizeof *norm_rows; i++) {
        for (int flags = 0; flags < NORM_FLAGS; flags++) {
            ls_norm_attr a = norm_attr(i, flags, storage);
            if (!a.two_grads) norm_forward_case(norm_rows[i].name, a, 0, visit, context);
            if (!a.two_grads && a.activation) norm_forward_case(norm_rows[i].name, a, 1, visit, context);
            if (!a.two_grads) norm_inference_case(norm_rows[i].name, a, visit, context);
            norm_backward_case(norm_rows[i].name, a, NORM_ALL, visit, context);
            norm_backward_case(norm_rows[i].name, a, NORM_STORED, visit, context);
            if (i == NORM_FROZEN_ROW) norm_backward_case(norm_rows[i].name, a, NORM_STORED_FROZEN, visit, context);
            if (i == NORM_FROZEN_ROW) norm_backward_case(norm_rows[i].name, a, NORM_GAMMA_FROZEN, visit, context);
            if (i == NORM_FROZEN_ROW) norm_backward_case(norm_rows[i].name, a, NORM_BETA_FROZEN, visit, context);
            if (i == NORM_FROZEN_ROW && a.activation == LS_ACTIVATION_RELU)
                norm_backward_case(norm_rows[i].name, a, NORM_RELU_OF_DST, visit, context);
        }
        ls_norm_attr last = norm_attr(i, 1, storage); // relu
        norm_backward_case(norm_rows[i].name, last, NORM_WITHOUT_DST, visit, context);
        last.residual = last.adds_last = 1;
        norm_forward_case(norm_rows[i].name, last, 0, visit, context);
        norm_inference_case(norm_rows[i].name, last, visit, context);
    }
    // more pixels than a GPU's threads take at once, so that each of them has several; and as many as a GPU of compute
    // capability 9.0 keeps of a channel, or one more
    ls_norm_attr a = {
        .shape = { 17, 1, 180, 180 }, .eps = 1e-5F, .activation = LS_ACTIVATION_RELU, .storage = storage
    };
    norm_forward_case("long slices", a, 0, visit, context);
    norm_backward_case("long slices", a, NORM_ALL, visit, context);
    for (int more = 0; more < 2; more++) {
        const char *name = more ? "long slices, one more" : "long slices, just kept";
        a.shape = (ls_nchw){ 1, 1, (storage == LS_F32 ? 26 : 24) * 4096 + more, 1 };
        norm_forward_case(name, a, 0, visit, context);
        a.shape.h = (storage == LS_F32 ? 13 : 12) * 4096 + more;
        norm_backward_case(name, a, NORM_ALL, visit, context);
        a.shape.h = 8 * 4096 + more;
        a.two_grads = a.residual = 1;
        norm_backward_case(name, a, NORM_ALL, visit, context);
        a.two_grads = a.residual = 0;
    }
    // eps as airbench has it: far below what fp32 adds to any of these variances
    a = (ls_norm_attr){ .shape = { 5, 17, 6, 7 }, .eps = 1e-12F, .storage = storage };
    norm_forward_case("eps 1e-12", a, 0, visit, context);
    norm_inference_case("eps 1e-12", a, visit, context);
    norm_backward_case("eps 1e-12", a, NORM_ALL, visit, context);
}

// --- batch norm with the max pooling that follows it (devices with LS_FUSES_NORM_POOL) -----------

static const struct {
    const char *name;
    ls_nchw shape;
    int kernel, stride, pad;
} norm_pool_rows[] = {
    { "resnet9 layer1", { 2, 128, 32, 32 }, 2, 2, 0 },
    { "resnet9 layer3", { 2, 512, 8, 8 }, 2, 2, 0 },
    { "one channel", { 5, 1, 14, 14 }, 2, 2, 0 },
    { "rest left over", { 3, 17, 7, 9 }, 2, 2, 0 },
    { "overlapping", { 2, 5, 9, 7 }, 3, 1, 1 },
    { "overlapping, stride 2", { 2, 20, 8, 11 }, 3, 2, 1 },
    { "2x2, stride 1", { 2, 9, 5, 6 }, 2, 1, 0 },
    { "2x2 padded", { 1, 10, 5, 5 }, 2, 2, 1 },
    { "stride beyond kernel", { 2, 3, 9, 9 }, 2, 3, 0 },
    { "global", { 4, 24, 4, 4 }, 4, 4, 0 },
    { "225 elements", { 2, 3, 16, 15 }, 15, 1, 0 },
    { "window of one", { 2, 10, 3, 3 }, 1, 1, 0 },
};

// Row i with a residual (flags 1) and two gradients (flags 2).
static inline ls_norm_attr norm_pool_attr(size_t i, int flags, ls_dtype storage) {
    ls_nchw s = norm_pool_rows[i].shape;
    int kernel = norm_pool_rows[i].kernel, stride = norm_pool_rows[i].stride, pad = norm_pool_rows[i].pad;
    return (ls_norm_attr){ .shape = s,
        .eps = 1e-5F,
        .activation = LS_ACTIVATION_RELU,
        .residual = flags & 1,
        .two_grads = flags >> 1 & 1,
        .pool_kernel = kernel,
        .pool_stride = stride,
        .pool_pad = pad,
        .pooled = { s.n, s.c, (s.h + 2 * pad - kernel) / stride + 1, (s.w + 2 * pad - kernel) / stride + 1 },
        .storage = storage };
}

static inline void norm_pool_cases(ls_dtype storage, case_visit *visit, void *context) {
    for (size_t i = 0; i < sizeof norm_pool_rows / sizeof *norm_pool_rows; i++) {
        for (int flags = 0; flags < 4; flags++) {
            ls_norm_attr a = norm_pool_attr(i, flags, storage);
            if (!a.two_grads) norm_forward_case(norm_pool_rows[i].name, a, 0, visit, context);
            if (!flags) norm_forward_case(norm_pool_rows[i].name, a, 1, visit, context);
            if (!a.two_grads) norm_inference_case(norm_pool_rows[i].name, a, visit, context);
            norm_backward_case(norm_pool_rows[i].name, a, NORM_ALL, visit, context);
        }
    }
}

// --- pooling -------------------------------------------------------------------------------------

static const struct {
    const char *name;
    ls_pool_kind kind;
    ls_nchw src;
    int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w; // stride 0: adaptive, to kernel_h x kernel_w
} pool_rows[] = {
    { "lenet pool1", LS_POOL_MAX, { 4, 32, 28, 28 }, 2, 2, 2, 2, 0, 0 },
    { "lenet pool2", LS_POOL_MAX, { 4, 64, 14, 14 }, 2, 2, 2, 2, 0, 0 },
    { "resnet9 layer1", LS_POOL_MAX, { 2, 128, 32, 32 }, 2, 2, 2, 2, 0, 0 },
    { "resnet9 layer2", LS_POOL_MAX, { 2, 256, 16, 16 }, 2, 2, 2, 2, 0, 0 },
    { "resnet9 layer3", LS_POOL_MAX, { 2, 512, 8, 8 }, 2, 2, 2, 2, 0, 0 },
    { "resnet9 global", LS_POOL_MAX, { 3, 512, 4, 4 }, 4, 4, 4, 4, 0, 0 },
    { "resnet20 global", LS_POOL_AVERAGE, { 3, 64, 8, 8 }, 8, 8, 8, 8, 0, 0 },
    { "one of everything", LS_POOL_MAX, { 1, 1, 1, 1 }, 1, 1, 1, 1, 0, 0 },
    { "overlapping", LS_POOL_MAX, { 2, 5, 9, 7 }, 3, 3, 1, 1, 1, 1 },
    { "overlapping, stride 2", LS_POOL_MAX, { 2, 17, 8, 11 }, 3, 3, 2, 2, 1, 1 },
    { "rest left over", LS_POOL_MAX, { 2, 3, 7, 9 }, 2, 2, 2, 2, 0, 0 },
    { "2x2 padded", LS_POOL_MAX, { 1, 10, 5, 5 }, 2, 2, 2, 2, 1, 1 },
    { "stride beyond kernel", LS_POOL_MAX, { 2, 3, 9, 9 }, 2, 2, 3, 3, 0, 0 },
    { "oblong window", LS_POOL_MAX, { 2, 3, 6, 10 }, 2, 5, 2, 2, 1, 1 },
    { "global of an oblong map", LS_POOL_MAX, { 2, 17, 3, 5 }, 3, 5, 1, 1, 0, 0 },
    { "254 elements", LS_POOL_MAX, { 1, 3, 3, 130 }, 2, 127, 1, 1, 0, 0 },
    { "255 elements", LS_POOL_MAX, { 1, 3, 4, 90 }, 3, 85, 1, 1, 0, 0 },
    { "16-bit index", LS_POOL_MAX, { 2, 10, 20, 20 }, 20, 20, 1, 1, 0, 0 },
    { "average 2x2", LS_POOL_AVERAGE, { 2, 3, 8, 6 }, 2, 2, 2, 2, 0, 0 },
    { "average, padded", LS_POOL_AVERAGE, { 2, 5, 7, 9 }, 3, 3, 2, 2, 1, 1 },
    { "average, overlapping", LS_POOL_AVERAGE, { 1, 17, 6, 5 }, 5, 5, 1, 1, 2, 2 },
    { "average, rest left over", LS_POOL_AVERAGE, { 2, 1, 5, 5 }, 2, 2, 2, 2, 0, 0 },
    { "average, 1x1 map", LS_POOL_AVERAGE, { 3, 10, 1, 1 }, 1, 1, 1, 1, 0, 0 },
    { "average, oblong", LS_POOL_AVERAGE, { 2, 10, 3, 4 }, 3, 4, 1, 1, 0, 0 },
    { "2x1, stride 2x1", LS_POOL_MAX, { 2, 17, 8, 5 }, 2, 1, 2, 1, 0, 0 },
    { "3x5, stride 1x3, padding 1x2", LS_POOL_MAX, { 2, 9, 7, 11 }, 3, 5, 1, 3, 1, 2 },
    { "2x2, stride 2x1", LS_POOL_MAX, { 2, 16, 7, 6 }, 2, 2, 2, 1, 0, 0 },
    { "average, 4x2, stride 3x2, padding 2x1", LS_POOL_AVERAGE, { 2, 3, 9, 8 }, 4, 2, 3, 2, 2, 1 },
    { "ceil, 2x2", LS_POOL_MAX, { 2, 17, 5, 7 }, 2, 2, 2, 2, 0, 0 },
    { "ceil, 3x3, stride 2", LS_POOL_MAX, { 2, 10, 8, 6 }, 3, 3, 2, 2, 0, 0 },
    { "ceil, padded", LS_POOL_MAX, { 2, 3, 6, 9 }, 3, 3, 3, 3, 1, 1 },
    { "adaptive, 7x5 to 3x2", LS_POOL_AVERAGE, { 2, 17, 7, 5 }, 3, 2, 0, 0, 0, 0 },
    { "adaptive, columns divide", LS_POOL_AVERAGE, { 3, 3, 5, 8 }, 2, 4, 0, 0, 0, 0 },
    { "adaptive, enlarged", LS_POOL_AVERAGE, { 2, 10, 2, 3 }, 7, 7, 0, 0, 0, 0 },
    { "adaptive, a pixel", LS_POOL_AVERAGE, { 2, 4, 1, 1 }, 2, 3, 0, 0, 0, 0 },
    { "adaptive, large windows", LS_POOL_AVERAGE, { 2, 33, 25, 23 }, 3, 5, 0, 0, 0, 0 },
};

static inline void pool_case(const char *name, ls_pool_attr a, case_visit *visit, void *context) {
    int window = a.kernel_h * a.kernel_w, has_index = a.kind == LS_POOL_MAX && a.training;
    op_case *c = case_new(LS_OP_POOL_FORWARD, a.storage, name, a.relu ? "relu" : "");
    if (!a.training) strncat(c->name, ", inference", sizeof c->name - strlen(c->name) - 1);
    c->desc.attr.pool = a;
    case_activation(c, LS_POOL_FORWARD_SRC, USE_IN, a.src, 0);
    case_activation(c, LS_POOL_FORWARD_DST, USE_OUT, a.dst, a.kind == LS_POOL_MAX ? 0 : sum_tolerance(window) / window);
    if (has_index) case_set(c, LS_POOL_FORWARD_INDEX, ARG_INDEX, USE_OUT, 1, 1);
    if (a.kind == LS_POOL_MAX) c->args[LS_POOL_FORWARD_DST].relative = 0;
    if (a.has_bias) {
        strncat(c->name, ", bias", sizeof c->name - strlen(c->name) - 1);
        case_vector(c, LS_POOL_FORWARD_BIAS, USE_IN, a.src.c, 0);
        c->args[LS_POOL_FORWARD_DST].relative = storage_ulp(a.storage);
        c->args[LS_POOL_FORWARD_DST].absolute = EPS32;
    }
    visit_and_free(visit, context, c);
    if (!a.training || a.has_bias) return;

    c = case_new(LS_OP_POOL_BACKWARD, a.storage, name, a.relu ? "relu" : "");
    c->desc.attr.pool = a;
    case_activation(c, LS_POOL_BACKWARD_GRAD_DST, USE_IN, a.dst, 0);
    if (has_index) {
        size_t count = (size_t)ls_nchw_count(a.src);
        case_set(c, LS_POOL_BACKWARD_INDEX, ARG_INDEX, USE_OUT, 1, 1); // made by a forward run, see op_harness.h
        c->pool_src = case_memory(count * sizeof(float));
        // few different values: equal ones are frequent, and the first of them must win
        for (size_t i = 0; i < count; i++) c->pool_src[i] = floorf(4 * case_random(c)) / 4;
    }
    if (!a.stride_h) window = (a.dst.h / a.src.h + 2) * (a.dst.w / a.src.w + 2); // windows over an element, at most
    case_activation(c, LS_POOL_BACKWARD_GRAD_SRC, USE_OUT, a.src, sum_tolerance(window));
    visit_and_free(visit, context, c);
}

static inline void pool_cases(ls_dtype storage, case_visit *visit, void *context) {
    for (size_t i = 0; i < sizeof pool_rows / sizeof *pool_rows; i++) {
        const int more = strncmp(pool_rows[i].name, "ceil", 4) == 0; // windows that reach beyond the padding
        ls_pool_attr a = { .kind = pool_rows[i].kind,
            .src = pool_rows[i].src,
            .kernel_h = pool_rows[i].kernel_h,
            .kernel_w = pool_rows[i].kernel_w,
            .stride_h = pool_rows[i].stride_h,
            .stride_w = pool_rows[i].stride_w,
            .pad_h = pool_rows[i].pad_h,
            .pad_w = pool_rows[i].pad_w,
            .storage = storage };
        a.dst = (ls_nchw){ a.src.n, a.src.c, a.kernel_h, a.kernel_w };
        if (a.stride_h) {
            a.dst.h = (a.src.h + 2 * a.pad_h - a.kernel_h) / a.stride_h + 1 + more;
            a.dst.w = (a.src.w + 2 * a.pad_w - a.kernel_w) / a.stride_w + 1 + more;
        } else {
            a.kernel_h = (a.src.h + a.dst.h - 1) / a.dst.h;
            a.kernel_w = (a.src.w + a.dst.w - 1) / a.dst.w;
        }
        for (a.training = 0; a.training < 2; a.training++) {
            for (a.relu = 0; a.relu <= (a.kind == LS_POOL_MAX); a.relu++) {
                for (a.has_bias = 0; a.has_bias <= (a.kind == LS_POOL_MAX); a.has_bias++)
                    pool_case(pool_rows[i].name, a, visit, context);
                a.has_bias = 0;
            }
        }
    }
}

// --- element-wise --------------------------------------------------------------------------------

static const struct {
    const char *name;
    ls_nchw shape;
} map_rows[] = {
    { "lenet relu1", { 4, 32, 28, 28 } },
    { "lenet relu3", { 4, 128, 1, 1 } },
    { "lenet logits", { 4, 10, 1, 1 } },
    { "resnet9 sum", { 1, 128, 16, 16 } },
    { "resnet20 sum", { 2, 16, 32, 32 } },
    { "one of everything", { 1, 1, 1, 1 } },
    { "odd", { 3, 17, 5, 7 } },
    { "odd channels", { 2, 3, 4, 4 } },
};

// --- gates ---------------------------------------------------------------------------------------

static inline void gate_cases(ls_dtype storage, case_visit *visit, void *context) {
    for (size_t i = 0; i < sizeof map_rows / sizeof *map_rows; i++) {
        const ls_nchw shape = map_rows[i].shape, gate = { shape.n, shape.c, 1, 1 };
        for (int in_place = 0; in_place < 2; in_place++) {
            op_case *c = case_new(LS_OP_GATE, storage, map_rows[i].name, "");
            c->desc.attr.gate = (ls_gate_attr){ .shape = shape, .storage = storage };
            case_activation(c, LS_GATE_SRC, USE_IN, shape, 0);
            case_activation(c, LS_GATE_GATE, USE_IN, gate, 0);
            case_activation(c, LS_GATE_DST, USE_OUT, shape, 0)->relative = 0; // rounded once
            if (in_place) case_alias(c, LS_GATE_DST, LS_GATE_SRC);
            visit_and_free(visit, context, c);
        }
        op_case *c = case_new(LS_OP_GATE_BACKWARD, storage, map_rows[i].name, "");
        c->desc.attr.gate = (ls_gate_attr){ .shape = shape, .storage = storage };
        case_activation(c, LS_GATE_BACKWARD_SRC, USE_IN, shape, 0);
        case_activation(c, LS_GATE_BACKWARD_GRAD_DST, USE_IN, shape, 0);
        case_activation(c, LS_GATE_BACKWARD_GRAD_GATE, USE_OUT, gate, sum_tolerance(shape.h * shape.w));
        visit_and_free(visit, context, c);
    }
}

// --- fake quantisation: the same bits on all devices ----------------------------------------------

static inline void grid_args(op_case *c, int scale, float scale_value, int zero, float zero_value) {
    ((float *)case_vector(c, scale, USE_IN, 1, 0)->host)[0] = scale_value;
    ((float *)case_vector(c, zero, USE_IN, 1, 0)->host)[0] = zero_value;
}

// Values in steps of an eighth of the grid's, so that ties are among them; about a third are clipped.
static inline void grid_source(op_case *c, op_arg *src, float scale) {
    for (size_t i = 0; i < src->count; i++) ((float *)src->host)[i] = rintf(1600 * case_random(c)) * scale / 8;
}

static inline void quantise_cases(ls_dtype storage, case_visit *visit, void *context) {
    static const struct {
        const char *name;
        float scale, zero;
    } grids[] = { { "after a relu", 0.0123F, -128 }, { "both signs", 0.25F, 17 }, { "below 0", 3, 127 } };
    if (storage != LS_F32) return;
    for (size_t i = 0; i < sizeof map_rows / sizeof *map_rows; i++) {
        const ls_nchw shape = map_rows[i].shape;
        const size_t g = i % (sizeof grids / sizeof *grids);
        for (int in_place = 0; in_place < 2; in_place++) {
            op_case *c = case_new(LS_OP_FAKE_QUANTISE, storage, map_rows[i].name, grids[g].name);
            c->desc.attr.quantise = (ls_quantise_attr){ .shape = shape };
            grid_source(c, case_activation(c, LS_FAKE_QUANTISE_SRC, USE_IN, shape, 0), grids[g].scale);
            grid_args(c, LS_FAKE_QUANTISE_SCALE, grids[g].scale, LS_FAKE_QUANTISE_ZERO, grids[g].zero);
            case_activation(c, LS_FAKE_QUANTISE_DST, USE_OUT, shape, 0)->relative = 0;
            if (in_place) case_alias(c, LS_FAKE_QUANTISE_DST, LS_FAKE_QUANTISE_SRC);
            visit_and_free(visit, context, c);
            c = case_new(LS_OP_FAKE_QUANTISE_BACKWARD, storage, map_rows[i].name, grids[g].name);
            c->desc.attr.quantise = (ls_quantise_attr){ .shape = shape };
            grid_source(c, case_activation(c, LS_FAKE_QUANTISE_BACKWARD_SRC, USE_IN, shape, 0), grids[g].scale);
            grid_args(
                c, LS_FAKE_QUANTISE_BACKWARD_SCALE, grids[g].scale, LS_FAKE_QUANTISE_BACKWARD_ZERO, grids[g].zero);
            case_activation(c, LS_FAKE_QUANTISE_BACKWARD_GRAD_DST, USE_IN, shape, 0);
            case_activation(c, LS_FAKE_QUANTISE_BACKWARD_GRAD_SRC, USE_OUT, shape, 0)->relative = 0;
            if (in_place) case_alias(c, LS_FAKE_QUANTISE_BACKWARD_GRAD_SRC, LS_FAKE_QUANTISE_BACKWARD_GRAD_DST);
            visit_and_free(visit, context, c);
        }
    }
}

static inline void quantise_weight_cases(ls_dtype storage, case_visit *visit, void *context) {
    static const struct {
        const char *name;
        ls_param_shape shape;
    } rows[] = {
        { "conv, 3 channels", { LS_PARAM_CONV, { 16, 3, 3, 3 }, 1 } },
        { "conv, odd", { LS_PARAM_CONV, { 19, 33, 3, 2 }, 1 } },
        { "conv, few outputs", { LS_PARAM_CONV, { 3, 24, 1, 1 }, 1 } },
        { "depthwise", { LS_PARAM_CONV, { 21, 1, 3, 3 }, 21 } },
        { "groups of 6", { LS_PARAM_CONV, { 12, 6, 1, 1 }, 2 } },
        { "linear", { LS_PARAM_LINEAR, { 10, 17, 4, 3 }, 1 } },
        { "linear of vectors", { LS_PARAM_LINEAR, { 33, 700, 1, 1 }, 1 } },
        { "one of everything", { LS_PARAM_CONV, { 1, 1, 1, 1 }, 1 } },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows && storage == LS_F32; i++) {
        op_case *c = case_new(LS_OP_FAKE_QUANTISE_WEIGHT, storage, rows[i].name, "");
        c->desc.attr.quantise = (ls_quantise_attr){ .param = rows[i].shape };
        op_arg *src = case_param(c, LS_FAKE_QUANTISE_WEIGHT_SRC, ARG_PARAM, USE_IN, rows[i].shape, 0);
        const size_t each = src->count / (size_t)rows[i].shape.dim[0];
        if (rows[i].shape.dim[0] > 1) memset((float *)src->host + each, 0, each * sizeof(float)); // a row of zeros
        case_param(c, LS_FAKE_QUANTISE_WEIGHT_DST, ARG_PARAM, USE_OUT, rows[i].shape, 0)->relative = 0;
        visit_and_free(visit, context, c);
    }
}

// --- copies of channels --------------------------------------------------------------------------

static const struct {
    const char *name;
    ls_nchw whole; // the side with all pixels: src, or with spread dst
    int channels;  // of the other
    int from, to, count, stride;
} channels_rows[] = {
    { "resnet20 stage 2 shortcut", { 3, 16, 32, 32 }, 32, 0, 8, 16, 2 },
    { "resnet20 stage 3 shortcut", { 2, 32, 16, 16 }, 64, 0, 16, 32, 2 },
    { "concat, first of two", { 2, 16, 6, 5 }, 40, 0, 0, 16, 1 },
    { "concat, aligned", { 2, 24, 6, 5 }, 40, 0, 16, 24, 1 },
    { "concat, growth 12", { 3, 12, 5, 7 }, 37, 0, 25, 12, 1 },
    { "concat, one channel", { 2, 1, 4, 4 }, 20, 0, 9, 1, 1 },
    { "part of a concat", { 2, 37, 5, 4 }, 12, 25, 0, 12, 1 },
    { "across many blocks", { 1, 70, 3, 3 }, 61, 6, 1, 55, 1 },
    { "few to few", { 2, 3, 5, 4 }, 4, 1, 2, 2, 1 },
    { "few to many", { 2, 3, 7, 6 }, 19, 0, 7, 3, 2 },
    { "many to few", { 2, 19, 7, 6 }, 3, 7, 0, 3, 3 },
    { "odd map, stride 2", { 2, 9, 7, 9 }, 18, 0, 4, 9, 2 },
    { "stride beyond the map", { 3, 10, 2, 3 }, 12, 0, 1, 10, 5 },
    { "one of everything", { 1, 1, 1, 1 }, 1, 0, 0, 1, 1 },
};

static inline void channels_case(
    size_t i, int spread, int keep, int two_sources, ls_dtype storage, case_visit *visit, void *context) {
    const ls_nchw whole = channels_rows[i].whole;
    const int stride = channels_rows[i].stride, from = channels_rows[i].from, to = channels_rows[i].to;
    const ls_nchw part = { whole.n, channels_rows[i].channels, (whole.h - 1) / stride + 1, (whole.w - 1) / stride + 1 };
    op_case *c = case_new(LS_OP_COPY_CHANNELS, storage, channels_rows[i].name,
        spread ? "spread"
        : keep ? "others kept"
               : "");
    c->desc.attr.channels = (ls_channels_attr){ .src = spread ? part : whole,
        .dst = spread ? whole : part,
        .from = spread ? to : from,
        .to = spread ? from : to,
        .count = channels_rows[i].count,
        .stride = stride,
        .spread = spread,
        .keep = keep,
        .two_sources = two_sources,
        .storage = storage };
    if (two_sources) strncat(c->name, ", two sources", sizeof c->name - strlen(c->name) - 1);
    case_activation(c, LS_COPY_CHANNELS_SRC, USE_IN, c->desc.attr.channels.src, 0);
    if (two_sources) case_activation(c, LS_COPY_CHANNELS_SRC2, USE_IN, c->desc.attr.channels.src, 0);
    case_activation(c, LS_COPY_CHANNELS_DST, keep ? USE_UPDATE : USE_OUT, c->desc.attr.channels.dst, 0)->relative = 0;
    visit_and_free(visit, context, c);
}

static const struct {
    const char *name;
    ls_nchw part;                  // each of two sources; the other has `channels`
    int channels, from, to, count; // from: of a source; to: of the other
} shuffle_rows[] = {
    { "shufflenet", { 2, 58, 4, 4 }, 116, 0, 0, 58 },
    { "shuffle of blocks", { 2, 32, 3, 5 }, 64, 0, 0, 32 },
    { "shuffle of few", { 3, 2, 5, 3 }, 4, 0, 0, 2 },
    { "shuffle of few to many", { 2, 3, 4, 3 }, 37, 0, 0, 3 },
    { "shuffle of a part", { 1, 40, 3, 2 }, 75, 3, 5, 33 },
    { "shuffle of one", { 1, 1, 1, 1 }, 2, 0, 0, 1 },
};

// alternate: 0: both sources in turns; 1, 2: one of them back
static inline void shuffle_case(
    size_t i, int alternate, int option, ls_dtype storage, case_visit *visit, void *context) {
    ls_nchw part = shuffle_rows[i].part, whole = part;
    whole.c = shuffle_rows[i].channels;
    op_case *c = case_new(LS_OP_COPY_CHANNELS, storage, shuffle_rows[i].name,
        (const char *[]){ "interleave", "alternate", "alternate, second" }[alternate]);
    const int to = shuffle_rows[i].to + (alternate == 2), adds = option && alternate;
    c->desc.attr.channels = (ls_channels_attr){ .src = alternate ? whole : part,
        .dst = alternate ? part : whole,
        .from = alternate ? to : shuffle_rows[i].from,
        .to = alternate ? shuffle_rows[i].from : to,
        .count = shuffle_rows[i].count,
        .stride = 1,
        .keep = option && !alternate,
        .interleave = !alternate,
        .alternate = alternate > 0,
        .two_sources = adds,
        .storage = storage };
    if (option) strncat(c->name, adds ? ", two sources" : ", others kept", sizeof c->name - strlen(c->name) - 1);
    case_activation(c, LS_COPY_CHANNELS_SRC, USE_IN, c->desc.attr.channels.src, 0);
    if (adds || !alternate) case_activation(c, LS_COPY_CHANNELS_SRC2, USE_IN, c->desc.attr.channels.src, 0);
    case_activation(c, LS_COPY_CHANNELS_DST, option && !alternate ? USE_UPDATE : USE_OUT, c->desc.attr.channels.dst, 0)
        ->relative = 0;
    visit_and_free(visit, context, c);
}

static inline void channels_cases(ls_dtype storage, case_visit *visit, void *context) {
    for (size_t i = 0; i < sizeof shuffle_rows / sizeof *shuffle_rows; i++)
        for (int alternate = 0; alternate < 3; alternate++)
            for (int option = 0; option < 2; option++) shuffle_case(i, alternate, option, storage, visit, context);
    for (size_t i = 0; i < sizeof channels_rows / sizeof *channels_rows; i++) {
        for (int two_sources = 0; two_sources < 2; two_sources++) {
            channels_case(i, 0, 0, two_sources, storage, visit, context);
            channels_case(i, 1, 0, two_sources, storage, visit, context);
            channels_case(i, 0, 1, two_sources, storage, visit, context);
        }
    }
}

// --- group norm ----------------------------------------------------------------------------------

static const struct {
    const char *name;
    ls_nchw shape;
    int groups;
    ls_norm_over over;
} group_norm_rows[] = {
    { "four groups", { 3, 32, 8, 8 }, 4, LS_NORM_OVER_GROUPS },
    { "groups across blocks", { 2, 30, 5, 7 }, 3, LS_NORM_OVER_GROUPS },
    { "small groups", { 2, 24, 6, 5 }, 8, LS_NORM_OVER_GROUPS },
    { "one group", { 2, 17, 4, 9 }, 1, LS_NORM_OVER_GROUPS },
    { "instance norm", { 2, 19, 6, 6 }, 19, LS_NORM_OVER_GROUPS },
    { "few channels", { 3, 4, 5, 3 }, 2, LS_NORM_OVER_GROUPS },
    { "a vector", { 5, 40, 1, 1 }, 5, LS_NORM_OVER_GROUPS },
    { "one channel", { 2, 1, 9, 7 }, 1, LS_NORM_OVER_GROUPS },
    { "a large map", { 1, 16, 40, 33 }, 2, LS_NORM_OVER_GROUPS },
    { "pixels", { 2, 32, 5, 7 }, 1, LS_NORM_OVER_PIXELS },
    { "pixels with padding", { 3, 19, 4, 6 }, 1, LS_NORM_OVER_PIXELS },
    { "pixels of few channels", { 2, 3, 9, 5 }, 1, LS_NORM_OVER_PIXELS },
    { "pixels of many channels", { 2, 333, 3, 2 }, 1, LS_NORM_OVER_PIXELS },
    { "one pixel", { 5, 40, 1, 1 }, 1, LS_NORM_OVER_PIXELS },
    { "nothing", { 3, 21, 4, 5 }, 1, LS_NORM_OVER_NOTHING },
    { "nothing, few channels", { 2, 3, 7, 3 }, 1, LS_NORM_OVER_NOTHING },
};

// frozen: the gradient that is not wanted: 1 gamma's, 2 beta's
static inline void group_norm_case(
    size_t i, int affine, int frozen, ls_dtype storage, case_visit *visit, void *context) {
    const ls_nchw shape = group_norm_rows[i].shape;
    const ls_group_norm_attr a = { .shape = shape,
        .groups = group_norm_rows[i].groups,
        .eps = 1e-5F,
        .affine = affine,
        .storage = storage,
        .over = group_norm_rows[i].over };
    const int normalises = a.over != LS_NORM_OVER_NOTHING;
    const size_t saved = 2 * (size_t)ls_group_norm_means(&a);
    if (!affine && !normalises) return;
    const double count = ls_group_norm_count(&a), tolerance = norm_tolerance(count);
    op_case *c = case_new(LS_OP_GROUP_NORM_FORWARD, storage, group_norm_rows[i].name, affine ? "affine" : "");
    c->desc.attr.group_norm = a;
    fill_spread(c, case_activation(c, LS_GROUP_NORM_FORWARD_SRC, USE_IN, shape, 0));
    if (affine) fill_uniform(c, case_vector(c, LS_GROUP_NORM_FORWARD_GAMMA, USE_IN, shape.c, 0), -1.5F, 1.5F);
    if (affine && normalises) case_vector(c, LS_GROUP_NORM_FORWARD_BETA, USE_IN, shape.c, 0);
    if (normalises) case_raw(c, LS_GROUP_NORM_FORWARD_SAVED, USE_OUT, LS_F32, saved, tolerance)->absolute = tolerance;
    case_activation(c, LS_GROUP_NORM_FORWARD_DST, USE_OUT, shape, tolerance);
    visit_and_free(visit, context, c);

    c = case_new(LS_OP_GROUP_NORM_BACKWARD, storage, group_norm_rows[i].name, affine ? "affine" : "");
    c->desc.attr.group_norm = a;
    fill_spread(c, case_activation(c, LS_GROUP_NORM_BACKWARD_SRC, USE_IN, shape, 0));
    case_activation(c, LS_GROUP_NORM_BACKWARD_GRAD_DST, USE_IN, shape, 0);
    if (affine) fill_uniform(c, case_vector(c, LS_GROUP_NORM_BACKWARD_GAMMA, USE_IN, shape.c, 0), -1.5F, 1.5F);
    float *values = normalises ? case_raw(c, LS_GROUP_NORM_BACKWARD_SAVED, USE_IN, LS_F32, saved, 0)->host : NULL;
    for (size_t k = saved / 2; k < saved; k++) values[k] = 0.9F + 0.2F * values[k];
    case_activation(c, LS_GROUP_NORM_BACKWARD_GRAD_SRC, USE_OUT, shape, 2 * tolerance);
    const double pixels = (double)shape.n * shape.h * shape.w; // terms as batch norm's
    if (affine && frozen != 1)
        case_vector(c, LS_GROUP_NORM_BACKWARD_GRAD_GAMMA, USE_UPDATE, shape.c, 6 * sum_tolerance(pixels + 1));
    if (affine && frozen != 2 && normalises)
        case_vector(c, LS_GROUP_NORM_BACKWARD_GRAD_BETA, USE_UPDATE, shape.c, 2 * sum_tolerance(pixels + 1));
    visit_and_free(visit, context, c);
}

static inline void group_norm_cases(ls_dtype storage, case_visit *visit, void *context) {
    for (size_t i = 0; i < sizeof group_norm_rows / sizeof *group_norm_rows; i++) {
        group_norm_case(i, 0, 0, storage, visit, context);
        for (int frozen = 0; frozen < 3; frozen++) group_norm_case(i, 1, frozen, storage, visit, context);
    }
}

// dst is the last argument; in place it is the last input.
static inline void map_case(
    ls_op op, const char *name, ls_elementwise_attr a, int in_place, case_visit *visit, void *context) {
    int dst = ls_op_args(op) - 1, inputs = op == LS_OP_DROPOUT ? 1 : dst;
    op_case *c = case_new(op, a.storage, name, activation_name(a.activation));
    c->desc.attr.elementwise = a;
    for (int i = 0; i < inputs; i++) case_activation(c, i, USE_IN, a.shape, 0);
    if (op == LS_OP_DROPOUT) case_micro(c, LS_DROPOUT_MICRO, a.shape.n);
    op_arg *out = case_activation(c, dst, USE_OUT, a.shape, 0);
    // the others round once, or not at all; division by 1 - p may be a multiplication by its reciprocal
    if (op != LS_OP_DROPOUT) out->relative = 0;
    if (op == LS_OP_DROPOUT && a.storage == LS_F32) out->relative = 3 * EPS32;
    if (a.activation) {
        fill_uniform(c, &c->args[0], -7, 7);
        // rounding x/sqrt(2) before erfc is a relative error of x^2 units there, and rounding gelu_tanh's 2u of 2u units
        const int units = a.activation == LS_ACTIVATION_GELU_TANH ? 96 : 32;
        out->relative = a.storage == LS_F32 ? units * EPS32 : storage_ulp(a.storage);
        out->absolute = op == LS_OP_ACTIVATION_BACKWARD ? 2 * EPS32 : 0; // the derivative crosses 0
    }
    if (in_place) case_alias(c, dst, inputs - 1);
    visit_and_free(visit, context, c);
}

static inline void map_cases(ls_dtype storage, case_visit *visit, void *context) {
    static const ls_op ops[] = { LS_OP_RELU_FORWARD, LS_OP_RELU_BACKWARD, LS_OP_ADD, LS_OP_MULTIPLY, LS_OP_SCALE,
        LS_OP_DROPOUT };
    for (size_t i = 0; i < sizeof map_rows / sizeof *map_rows; i++) {
        ls_elementwise_attr a = { .shape = map_rows[i].shape,
            .storage = storage,
            .factor = 0.3F,
            .p = 0.4F,
            .unit = 1,
            .layer = 5,
            .seed = 0x123456789abcdef };
        for (size_t op = 0; op < sizeof ops / sizeof *ops; op++) {
            map_case(ops[op], map_rows[i].name, a, 0, visit, context);
            map_case(ops[op], map_rows[i].name, a, 1, visit, context);
        }
        for (int in_place = 0; in_place < 2; in_place++) {
            a.unit = a.shape.h * a.shape.w;
            map_case(LS_OP_DROPOUT, map_rows[i].name, a, in_place, visit, context);
            a.unit *= a.shape.c;
            map_case(LS_OP_DROPOUT, map_rows[i].name, a, in_place, visit, context);
        }
        for (int kind = LS_ACTIVATION_RELU + 1; kind < LS_ACTIVATION_COUNT; kind++) {
            a.activation = (ls_activation)kind;
            a.parameter = 0.3F;
            for (int in_place = 0; in_place < 2; in_place++) {
                map_case(LS_OP_ACTIVATION_FORWARD, map_rows[i].name, a, in_place, visit, context);
                map_case(LS_OP_ACTIVATION_BACKWARD, map_rows[i].name, a, in_place, visit, context);
            }
        }
    }
}

#include "op_cases_norm_parts.h"
#include "op_cases_update.h"

// Batch norm with each activation that it takes in, whole and in halves. GELU is in norm_cases, too.
static inline void norm_curve_cases(ls_dtype storage, case_visit *visit, void *context) {
    for (int kind = LS_ACTIVATION_RELU + 1; kind < LS_ACTIVATION_COUNT; kind++) {
        if (!ls_activation_keeps_zero((ls_activation)kind)) continue;
        const char *name = norm_rows[NORM_FROZEN_ROW].name;
        ls_norm_attr a = norm_attr(NORM_FROZEN_ROW, 0, storage);
        a.activation = (ls_activation)kind;
        a.parameter = 0.3F;
        norm_forward_case(name, a, 0, visit, context);
        norm_inference_case(name, a, visit, context);
        norm_backward_case(name, a, NORM_ALL, visit, context);
        norm_part_cases_of(name, a, visit, context);
    }
}

static inline void each_case(ls_dtype storage, case_visit *visit, void *context) {
    conv_cases(storage, visit, context);
    linear_cases(storage, visit, context);
    norm_cases(storage, visit, context);
    norm_pool_cases(storage, visit, context);
    norm_curve_cases(storage, visit, context);
    norm_part_cases(storage, visit, context);
    pool_cases(storage, visit, context);
    map_cases(storage, visit, context);
    gate_cases(storage, visit, context);
    quantise_cases(storage, visit, context);
    quantise_weight_cases(storage, visit, context);
    channels_cases(storage, visit, context);
    group_norm_cases(storage, visit, context);
    augment_cases(storage, visit, context);
    trivial_cases(storage, visit, context);
    resize_cases(storage, visit, context);
    loss_cases(storage, visit, context);
    distill_cases(storage, visit, context);
    head_cases(storage, visit, context);
    flat_cases(storage, visit, context);
    control_cases(storage, visit, context);
    optimizer_cases(storage, visit, context);
}

#endif
